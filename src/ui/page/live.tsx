/** The stream from the server, as state. Closed while the tab is hidden: a page that nobody sees costs the store nothing. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { advance, begin, type Model } from '../model.js'
import type { Init, Tick } from '../wire.js'
import { routeUrl } from './route.js'

export type Link = 'connecting' | 'live' | 'away'

export interface Live {
  readonly model: Model | undefined
  readonly link: Link
  /** The server's clock, ms since 1970. It stops while the view is frozen. */
  readonly now: number
}

/** How often ages move on without news, and how long after a refusal to try again, in ms. */
const beat = 1_000
const againAfter = 2_000

export function useLive(store: string | undefined, name: string | undefined, frozen: boolean): Live {
  const model = useRef<Model | undefined>(undefined)
  const [link, setLink] = useState<Link>('connecting')
  const [now, setNow] = useState(Date.now())
  const still = useRef(frozen)
  still.current = frozen
  useEffect(() => {
    let source: EventSource | undefined
    let again: ReturnType<typeof setTimeout> | undefined
    let due = false
    const show = () => {
      due = false
      if (!still.current && model.current) setNow(Date.now() + model.current.skew)
    }
    // However many messages come, one frame shows them.
    const soon = () => {
      if (due) return
      due = true
      requestAnimationFrame(show)
    }
    const close = () => {
      clearTimeout(again)
      source?.close()
      source = undefined
    }
    const open = () => {
      close()
      const about =
        store !== undefined && name !== undefined ? `?${new URLSearchParams({ store, name })}` : ''
      source = new EventSource(routeUrl(`events${about}`))
      source.addEventListener('init', (event) => {
        const next = begin(JSON.parse((event as MessageEvent<string>).data) as Init, Date.now())
        model.current = next
        setLink('live')
        soon()
      })
      source.addEventListener('tick', (event) => {
        if (model.current)
          advance(model.current, JSON.parse((event as MessageEvent<string>).data) as Tick, Date.now())
        soon()
      })
      source.onerror = () => {
        setLink('away')
        if (source?.readyState === EventSource.CLOSED) again = setTimeout(open, againAfter)
      }
    }
    const seen = () => (document.hidden ? close() : open())
    const timer = setInterval(soon, beat)
    document.addEventListener('visibilitychange', seen)
    open()
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', seen)
      close()
    }
  }, [store, name])
  return { model: model.current, link, now }
}
