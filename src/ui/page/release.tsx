/** Taking a lock by force: names the holds it is meant for, asks for a reason, and asks again. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { StoreModel } from '../model.js'
import { lasted, visible } from '../stats.js'
import type { Entry } from '../wire.js'
import { routeUrl } from './route.js'

interface Props {
  readonly store: StoreModel
  readonly entry: Entry
  readonly sendKey: string
  readonly now: number
}

export function Release({ store, entry, sendKey, now }: Props) {
  const [open, setOpen] = useState(false)
  const [said, setSaid] = useState('')
  if (!store.canRelease || (entry.holders.length === 0 && said === '')) return null
  return (
    <div class="release">
      <button
        type="button"
        class="danger"
        disabled={entry.holders.length === 0}
        onClick={() => setOpen(true)}
      >
        Release by force…
      </button>
      <output>{said}</output>
      {open && (
        <Ask
          store={store}
          entry={entry}
          sendKey={sendKey}
          now={now}
          over={(words) => {
            setOpen(false)
            setSaid(words)
          }}
        />
      )}
    </div>
  )
}

/** What a holder gets when it is asked first, in ms. */
const grace = 10_000

function Ask({ store, entry, sendKey, now, over }: Props & { over: (words: string) => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  // The holds as they were when the dialog was opened: those that come later are not meant.
  const [meant] = useState(entry.holders)
  const [why, setWhy] = useState('')
  const [first, setFirst] = useState(store.canAsk)
  const [busy, setBusy] = useState(false)
  useEffect(() => dialog.current?.showModal(), [])
  const send = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    const tokens = meant.map(({ token }) => token)
    const body = { store: store.id, name: entry.name, tokens, why, ...(first && { grace }) }
    over(await ask(body, sendKey))
  }
  return (
    <dialog ref={dialog} aria-labelledby="release-title" onClose={() => over('')}>
      <form onSubmit={(event) => void send(event)}>
        <h2 id="release-title">Take “{visible(entry.name)}” from its holder?</h2>
        <ul>
          {meant.map(({ attempt, client, since, token }) => (
            <li key={attempt}>
              {visible(client ?? 'unknown')}, token {token}, for {lasted(now - since)}
            </li>
          ))}
        </ul>
        <p>
          Whoever holds it may still be at work when the next one is granted. Only what checks the token is
          safe from that.
        </p>
        {store.canAsk && (
          <label>
            <input
              type="checkbox"
              checked={first}
              onChange={(event) => setFirst(event.currentTarget.checked)}
            />{' '}
            Ask the holder first, and give it {lasted(grace)}
          </label>
        )}
        <label class="why">
          Why? The holder is told, and it stays on this page and in the log.
          <input
            required
            maxLength={200}
            value={why}
            onInput={(event) => setWhy(event.currentTarget.value)}
          />
        </label>
        <p class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={busy || why.trim() === ''}>
            {busy ? 'Releasing…' : 'Release it'}
          </button>
        </p>
      </form>
    </dialog>
  )
}

const outcomes: Readonly<Record<string, string>> = {
  free: 'The lock was free already.',
  released: 'The holder released it.',
  forced: 'Released by force.',
}

async function ask(body: unknown, key: string): Promise<string> {
  try {
    const headers = { 'content-type': 'application/json', 'x-holdfast-key': key }
    const response = await fetch(routeUrl('release'), { method: 'POST', headers, body: JSON.stringify(body) })
    if (!response.ok) return (await response.text()).trim()
    const { outcome } = (await response.json()) as { outcome: string }
    return outcomes[outcome] ?? outcome
  } catch (error) {
    return `No answer: ${(error as Error).message}. It may have been released all the same.`
  }
}
