/**
 * The process's one notification channel: "it is your turn", "somebody waits", "an operator took it". Any role may send notifications, so
 * the process believes none of them: a notification only makes it ask the server.
 *
 * The channel opens at the first wait. Until it is up, and with `listen: false`, waiters poll and record that in the queue. When its connection
 * ends, the channel opens again for as long as anybody waits, and every waiter asks again, because notifications sent meanwhile are lost.
 */
import type { Clock } from '../../core/clock.js'
import type { Connection, Database } from './client.js'

export type Notification =
  /** What is ahead of it ends in `left` µs. */
  | { readonly is: 'next'; readonly attempt: string; readonly left: number }
  /** A cell that this process watches was written. */
  | { readonly is: 'cell'; readonly key: string }
  /** Its turn has come · somebody waits for its lock · an operator took its lock · try again (`session`). */
  | { readonly is: 'turn' | 'contended' | 'taken' | 'try'; readonly attempt: string }

export interface Subscriber {
  /** The channel on which this process can be notified now; null while it cannot. */
  readonly channel: string | null
  /** The server process of the listening connection and its start time; null if unknown: no waiter may then be presumed dead by it. */
  readonly listener: string | null
  /** Grows whenever the channel breaks: notifications agreed on before can no longer be relied on. */
  readonly epoch: number
  /** Idempotent. */
  open(): void
  /** For the owner of the connection it listens on, here and below: a payload arrived; the connection ended. */
  onPayload(payload: string): void
  onConnectionEnd(): void
  close(): Promise<void>
}

export interface SubscriberSettings {
  readonly clock: Clock
  readonly channel: string
  /** Undefined: never listen. */
  readonly database: Database | undefined
  /** The connection to listen on, if it also carries statements; undefined: a separate one. */
  readonly main: (() => Promise<Connection>) | undefined
  readonly onNotification: (push: Notification) => void
  /** The channel is up: waiters should now tell the server where to notify them. */
  readonly onUp: () => void
  /** The connection has ended. */
  readonly onDown: () => void
  /** True while anybody still needs the channel. */
  readonly isNeeded: () => boolean
}

const listenerQuery = `select pid || ' ' || (extract(epoch from backend_start) * 1000000)::bigint as answer
  from pg_stat_get_activity(pg_backend_pid())`

export function createSubscriber({
  clock,
  channel,
  database,
  main,
  onNotification,
  onUp,
  onDown,
  isNeeded,
}: SubscriberSettings): Subscriber {
  let isUp = false
  let listener: string | null = null
  let epoch = 0
  let wanted = false
  let closed = false
  let failures = 0
  let breaks = 0
  let stop: (() => void) | undefined
  let end: (() => Promise<void> | void) | undefined
  const onPayload = (payload: string) => {
    const parsed = parseNotification(payload)
    if (parsed !== undefined && !closed) onNotification(parsed)
  }
  const connected = () => {
    if (closed) return
    // Up again: postgres.js reconnected after a break that it did not report.
    if (isUp) {
      epoch++
      onDown()
    }
    isUp = true
    failures = 0
    onUp()
  }
  const onConnectionEnd = () => {
    breaks++
    if (isUp) epoch++
    isUp = false
    listener = null
    if (closed) return
    onDown()
    if (wanted) again()
  }
  const again = () => {
    if (stop !== undefined) return
    stop = clock.at(
      clock.now() + Math.min(1_000, 20 * 2 ** Math.min(failures++, 6)),
      () => {
        stop = undefined
        if (isNeeded()) void listen()
        else wanted = false
      },
      { ref: false },
    )
  }
  const listen = async (): Promise<void> => {
    const before = breaks
    try {
      if (database?.shared !== undefined) {
        end = await database.shared.listen(channel, onPayload, connected)
        if (closed) await end()
        return
      }
      const connection =
        main === undefined
          ? await database?.open({ notified: onPayload, closed: onConnectionEnd })
          : await main()
      if (main === undefined) end = () => connection?.destroy()
      await connection?.script(`listen "${channel}"`)
      const present = (await connection?.query(listenerQuery, [])) ?? ''
      // Different pids mean a pooler in between: the server process that answers now need not be the one that listens.
      listener = connection?.pid === Number(present.split(' ')[0]) ? present : null
      if (closed) await end?.()
      // The connection that confirmed the LISTEN may have ended at the same moment.
      else if (breaks === before) connected()
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
    onPayload,
    onConnectionEnd,
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
export function parseNotification(text: string): Notification | undefined {
  if (text.startsWith('k ')) return { is: 'cell', key: text.slice(2) }
  const [what, attempt = '', left] = text.split(' ', 3)
  if (what === 'g') return { is: 'turn', attempt }
  if (what === 'n') return { is: 'next', attempt, left: Number(left) }
  if (what === 'c') return { is: 'contended', attempt }
  if (what === 'x') return { is: 'taken', attempt }
  return what === 'w' ? { is: 'try', attempt } : undefined
}
