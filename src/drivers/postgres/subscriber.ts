/**
 * The process's one notification channel: "it is your turn", "somebody waits", "an operator took it". Any role may send notifications, so
 * the process believes none of them: a notification only makes it ask the server.
 *
 * The channel opens at the first wait. Until it is up, and with `listen: false`, waiters poll and record that in the queue. When its connection
 * ends, the channel opens again for as long as anybody waits, and every waiter asks again, because notifications sent meanwhile are lost.
 */
import type { Clock } from '../../core/clock.js'
import type { Database, Wire } from './client.js'

export type Push =
  /** What is ahead of it ends in `left` µs. */
  | { readonly is: 'next'; readonly attempt: string; readonly left: number }
  /** A cell that this process watches was written. */
  | { readonly is: 'cell'; readonly key: string }
  /** Its turn has come · somebody waits for its lock · an operator took its lock · try again (`session`). */
  | { readonly is: 'turn' | 'contended' | 'taken' | 'try'; readonly attempt: string }

export interface Ear {
  /** The channel on which this process can be notified now; null while it cannot. */
  readonly channel: string | null
  /** The server process of the listening connection and its start time; null if unknown: no waiter may then be presumed dead by it. */
  readonly listener: string | null
  /** Grows whenever the channel breaks: notifications agreed on before can no longer be relied on. */
  readonly epoch: number
  /** Idempotent. */
  open(): void
  /** For the owner of the connection it listens on, here and below: a payload arrived; the connection ended. */
  heard(payload: string): void
  broke(): void
  close(): Promise<void>
}

export interface EarSettings {
  readonly clock: Clock
  readonly channel: string
  /** Undefined: never listen. */
  readonly database: Database | undefined
  /** The connection to listen on, if it also carries statements; undefined: a separate one. */
  readonly main: (() => Promise<Wire>) | undefined
  readonly push: (push: Push) => void
  /** The channel is up: waiters should now tell the server where to notify them. */
  readonly up: () => void
  /** The connection has ended. */
  readonly down: () => void
  /** True while anybody still needs the channel. */
  readonly needed: () => boolean
}

const whoListens = `select pid || ' ' || (extract(epoch from backend_start) * 1000000)::bigint as answer
  from pg_stat_get_activity(pg_backend_pid())`

export function createEar({ clock, channel, database, main, push, up, down, needed }: EarSettings): Ear {
  let isUp = false
  let listener: string | null = null
  let epoch = 0
  let wanted = false
  let closed = false
  let failures = 0
  let breaks = 0
  let stop: (() => void) | undefined
  let end: (() => Promise<void> | void) | undefined
  const heard = (payload: string) => {
    const parsed = parsePush(payload)
    if (parsed !== undefined && !closed) push(parsed)
  }
  const risen = () => {
    if (closed) return
    // Up again: postgres.js reconnected after a break that it did not report.
    if (isUp) {
      epoch++
      down()
    }
    isUp = true
    failures = 0
    up()
  }
  const broke = () => {
    breaks++
    if (isUp) epoch++
    isUp = false
    listener = null
    if (closed) return
    down()
    if (wanted) again()
  }
  const again = () => {
    if (stop !== undefined) return
    stop = clock.at(
      clock.now() + Math.min(1_000, 20 * 2 ** Math.min(failures++, 6)),
      () => {
        stop = undefined
        if (needed()) void listen()
        else wanted = false
      },
      { ref: false },
    )
  }
  const listen = async (): Promise<void> => {
    const before = breaks
    try {
      if (database?.shared !== undefined) {
        end = await database.shared.listen(channel, heard, risen)
        if (closed) await end()
        return
      }
      const wire = main === undefined ? await database?.open({ notified: heard, gone: broke }) : await main()
      if (main === undefined) end = () => wire?.destroy()
      await wire?.script(`listen "${channel}"`)
      const present = (await wire?.query(whoListens, [])) ?? ''
      // Different pids mean a pooler in between: the server process that answers now need not be the one that listens.
      listener = wire?.pid === Number(present.split(' ')[0]) ? present : null
      if (closed) await end?.()
      // The connection that confirmed the LISTEN may have ended at the same moment.
      else if (breaks === before) risen()
    } catch {
      if (!closed) again()
    }
  }
  return {
    get channel() {
      return isUp ? channel : null
    },
    get listener() {
      return isUp ? listener : null
    },
    get epoch() {
      return epoch
    },
    open() {
      if (wanted || closed || database === undefined) return
      wanted = true
      void listen()
    },
    heard,
    broke,
    async close() {
      closed = true
      isUp = false
      epoch++
      stop?.()
      await end?.()
    },
  }
}

/** @param text sent by any role that may notify: of any shape, up to 8,000 bytes */
export function parsePush(text: string): Push | undefined {
  if (text.startsWith('k ')) return { is: 'cell', key: text.slice(2) }
  const [what, attempt = '', left] = text.split(' ', 3)
  if (what === 'g') return { is: 'turn', attempt }
  if (what === 'n') return { is: 'next', attempt, left: Number(left) }
  if (what === 'c') return { is: 'contended', attempt }
  if (what === 'x') return { is: 'taken', attempt }
  return what === 'w' ? { is: 'try', attempt } : undefined
}
