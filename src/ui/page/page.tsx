/** The page: a header, then either all stores or one name. */
import { render } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Model } from '../model.js'
import { storeOf, visible } from '../stats.js'
import { Help } from './help.js'
import { type Link, useLive } from './live.js'
import { NamePage } from './name-page.js'
import { hrefOf, useLeft, useRoute } from './route.js'
import { StorePanel } from './store.js'

const links: Readonly<Record<Link, string>> = {
  connecting: 'connecting',
  live: 'live',
  away: 'connection lost, trying again',
}

function App() {
  const route = useRoute()
  const [frozen, setFrozen] = useState(false)
  const [wanted, setWanted] = useState('')
  const { model, link, now } = useLive(route.store, route.name, frozen)
  const search = useRef<HTMLInputElement>(null)
  const help = useRef<HTMLDialogElement>(null)
  const [theme, turn] = useTheme()
  useKeys({
    '/': () => search.current?.focus(),
    p: () => setFrozen((was) => !was),
    d: turn,
    '?': () => help.current?.showModal(),
    Escape: () => {
      if (document.activeElement === search.current) setWanted('')
      else if (route.name !== undefined) location.hash = '#/'
    },
  })
  const store = model?.stores.find(({ id }) => id === route.store)
  const left = useLeft(route)
  useEffect(() => {
    document.title = route.name === undefined ? 'holdfast' : `${visible(route.name)} · holdfast`
  }, [route.name])
  const go = (event: Event) => {
    event.preventDefault()
    const name = wanted.trim()
    const found = storeOf(model?.stores ?? [], name)
    if (found !== undefined && name !== '') location.hash = hrefOf(found.id, name)
  }
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        Skip to the locks
      </button>
      <header class="top">
        <a class="brand" href="#/">
          holdfast
        </a>
        <search>
          <form onSubmit={go}>
            <input
              ref={search}
              type="search"
              aria-label="search names, holders, notes"
              placeholder="search names, holders, notes ( / )"
              value={wanted}
              onInput={(event) => setWanted(event.currentTarget.value)}
            />
          </form>
        </search>
        <button type="button" aria-pressed={frozen} onClick={() => setFrozen(!frozen)}>
          {frozen ? 'Go on' : 'Freeze'}
        </button>
        <button type="button" onClick={turn}>
          {theme === 'dark' ? 'Light' : 'Dark'}
        </button>
        <button type="button" aria-label="keyboard help" onClick={() => help.current?.showModal()}>
          ?
        </button>
        <span class={`link ${link}`} role="status">
          {frozen ? 'frozen' : links[link]}
        </span>
      </header>
      <Alerts model={model} />
      {model === undefined ? (
        <p class="empty">Waiting for the first reading.</p>
      ) : store !== undefined && route.name !== undefined ? (
        <NamePage
          key={route.name}
          store={store}
          name={route.name}
          now={now}
          keeps={model.keeps}
          sendKey={model.key}
        />
      ) : (
        <main id="main" class="stores">
          <h1 class="visually-hidden">Locks</h1>
          {model.stores.map((one) => (
            <StorePanel
              key={one.id}
              {...{ store: one, now, keeps: model.keeps, wanted }}
              left={left?.store === one.id ? left.name : undefined}
            />
          ))}
        </main>
      )}
      <Help dialog={help} />
    </>
  )
}

function skip(): void {
  const main = document.getElementById('main')
  main?.setAttribute('tabindex', '-1')
  main?.focus()
}

/** Says aloud what went wrong last, and only that: a screen reader could not follow every grant. */
function Alerts({ model }: { model: Model | undefined }) {
  const last = model?.stores
    .flatMap(({ past }) => past.slice(-50).filter(({ end }) => end === 'lost' || end === 'forced'))
    .sort((a, b) => a.to - b.to)
    .at(-1)
  return (
    <div class="visually-hidden" role="status">
      {last !== undefined &&
        `${visible(last.name)} was ${last.end === 'lost' ? 'lost by' : 'taken by force from'} ${visible(last.client ?? 'its holder')}`}
    </div>
  )
}

function useKeys(keys: Readonly<Record<string, () => void>>): void {
  const now = useRef(keys)
  now.current = keys
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { target } = event
      const typing = target instanceof HTMLInputElement || target instanceof HTMLSelectElement
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]') !== null)
        return
      if (typing && event.key !== 'Escape') return
      const act = Object.hasOwn(now.current, event.key) ? now.current[event.key] : undefined
      if (act === undefined) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [])
}

type Theme = 'dark' | 'light'

/** As the system says, until the button is pressed. */
function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(() => {
    const kept = stored()
    return kept ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')
  })
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme
  }, [theme])
  const turn = () => {
    const next = theme === 'dark' ? 'light' : 'dark'
    setTheme(next)
    try {
      localStorage.setItem('holdfast-theme', next)
    } catch {
      // A browser that keeps nothing forgets this, too.
    }
  }
  return [theme, turn]
}

function stored(): Theme | undefined {
  try {
    const kept = localStorage.getItem('holdfast-theme')
    return kept === 'dark' || kept === 'light' ? kept : undefined
  } catch {
    return undefined
  }
}

const app = document.getElementById('app')
if (app !== null) {
  app.textContent = ''
  render(<App />, app)
}
