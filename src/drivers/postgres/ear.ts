/**
 * The process's one channel: grants, "somebody waits", "an operator took it".
 *
 * It is opened when something is first waited for. Until it is up, and with `listen: false`, waiters poll and say so in the line.
 * When its connection ends, it is opened again for as long as anybody waits, and everybody asks anew: what was
 * notified meanwhile is lost.
 */
import type { Clock } from '../../core/clock.js'
import type { Database, Wire } from './client.js'

export type Push =
  | {
      readonly is: 'granted'
      readonly attempt: string
      readonly token: number
      /** Microseconds between the server's reading of request `n` and the grant. */
      readonly age: number
      readonly n: number
      readonly claim: number
      readonly contended: boolean
      readonly name: string
    }
  /** In so many µs the claim above it runs out. */
  | { readonly is: 'next'; readonly attempt: string; readonly left: number }
  /** A cell that is watched here was written. */
  | { readonly is: 'cell'; readonly key: string }
  /** Somebody waits for it · an operator took it · try again (`session`). */
  | { readonly is: 'contended' | 'taken' | 'try'; readonly attempt: string }

export interface Ear {
  /** Where this process is reached now; null while it cannot be. */
  readonly channel: string | null
  /** Grows whenever the channel breaks: what was agreed before cannot be relied on. */
  readonly epoch: number
  /** Idempotent. */
  open(): void
  /** For the ear of whoever owns the connection it listens on: a payload came, or the connection ended. */
  heard(payload: string): void
  broke(): void
  close(): Promise<void>
}

export interface EarSettings {
  readonly clock: Clock
  readonly channel: string
  /** Undefined: never listen. */
  readonly database: Database | undefined
  /** The connection to listen on, where it is shared with statements; undefined: one of its own. */
  readonly main: (() => Promise<Wire>) | undefined
  readonly push: (push: Push) => void
  /** It is up: those who wait should say where they can be reached. */
  readonly up: () => void
  /** Does anybody still need it? */
  readonly needed: () => boolean
}

export function createEar({ clock, channel, database, main, push, up, needed }: EarSettings): Ear {
  let isUp = false
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
    // Again: postgres.js came back after a break it did not tell.
    if (isUp) epoch++
    isUp = true
    failures = 0
    up()
  }
  const broke = () => {
    breaks++
    if (isUp) epoch++
    isUp = false
    if (wanted && !closed) again()
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
      if (closed) await end?.()
      // What said that it listens may have ended in the same moment.
      else if (breaks === before) risen()
    } catch {
      if (!closed) again()
    }
  }
  return {
    get channel() {
      return isUp ? channel : null
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

export function parsePush(text: string): Push | undefined {
  const [what, attempt = '', token, age, n, claim, contended, ...name] = text.split(' ')
  if (what === 'n') return { is: 'next', attempt, left: Number(token) }
  if (what === 'c') return { is: 'contended', attempt }
  if (what === 'x') return { is: 'taken', attempt }
  if (what === 'w') return { is: 'try', attempt }
  if (what === 'k') return { is: 'cell', key: text.slice(2) }
  if (what !== 'g') return undefined
  return {
    is: 'granted',
    attempt,
    token: Number(token),
    age: Number(age),
    n: Number(n),
    claim: Number(claim),
    contended: contended === '1',
    name: name.join(' '),
  }
}
