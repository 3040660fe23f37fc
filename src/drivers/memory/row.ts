/** The row of one name: holders, waiters, newest token. Plain data and queries on it. See `table.ts`. */
import type { Holder, LockStatus } from '../../core/driver.js'
import type { Mode } from '../../core/mode.js'

/** The request of one attempt. */
export interface AcquireRequest {
  readonly attempt: string
  readonly mode: Mode
  /** How long a proof of ownership is valid, in ms. */
  readonly ttl: number
  /** False: one try, never queued. */
  readonly wait: boolean
  /** The ticket from an earlier answer `waiting`: puts the attempt ahead of those with a later ticket. */
  readonly ticket?: number | undefined
  readonly note?: string | undefined
  readonly client?: string | undefined
}

/** A queue entry. */
export interface QueueEntry {
  readonly attempt: string
  readonly mode: Mode
  readonly ttl: number
  readonly since: number
  /** Grows along the queue. */
  readonly ticket: number
  readonly note: string | undefined
  readonly client: string | undefined
}

/** One holder. */
export interface Hold {
  readonly attempt: string
  readonly mode: Mode
  readonly ttl: number
  readonly token: number
  /** The last token its process may use for local hand-overs without asking; the token itself if there is no reserve. */
  readonly upTo: number
  readonly since: number
  readonly expires: number
  /** The greatest order of a renewal that may have ended it sooner. */
  readonly order?: number
  readonly note: string | undefined
  readonly client: string | undefined
}

export interface Row {
  readonly name: string
  /** The greatest token minted or reserved so far. */
  readonly token: number
  readonly holds: readonly Hold[]
  readonly queue: readonly QueueEntry[]
  /** Attempts that ended by release or cancel, newest first, at most {@link maxEnded}. */
  readonly ended: readonly string[]
}

/** How many ended attempts a row remembers: about one for each process that might resend a release. */
export const maxEnded = 16

export const emptyList: readonly never[] = Object.freeze([])

/** The row of an unused name. `token` is a floor: every token will be greater. */
export function emptyRow(name: string, token = 0): Row {
  return { name, token, holds: emptyList, queue: emptyList, ended: emptyList }
}

/** Written out, not spread: this is most of the work of an uncontended acquire and release. */
export function createRow(
  name: string,
  token: number,
  holds: readonly Hold[],
  queue: readonly QueueEntry[],
  ended: readonly string[],
): Row {
  return { name, token, holds, queue, ended }
}

/** No holders and no waiters: the row may be forgotten if its token is kept as a floor. */
export function isIdle(row: Row): boolean {
  return row.holds.length === 0 && row.queue.length === 0
}

/** When the next hold is overdue; Infinity when there is no hold. */
export function nextExpiry(row: Row): number {
  let least = Infinity
  for (const hold of row.holds) if (hold.expires < least) least = hold.expires
  return least
}

/** The limit of the semaphore, while any attempt holds or waits for permits. */
export function permitLimit(row: Row): number | undefined {
  for (const { mode } of row.holds) if (mode.kind === 'permits') return mode.of
  for (const { mode } of row.queue) if (mode.kind === 'permits') return mode.of
  return undefined
}

/** Holders and waiters, as `inspect` shows them. */
export function toLockStatus(row: Row, now: number): LockStatus {
  const holder = row.holds[0]
  return {
    name: row.name,
    holders: row.holds.map((hold) => toHolder(hold, now)),
    waiters: row.queue.map((entry) => ({
      attempt: entry.attempt,
      mode: entry.mode,
      waitedFor: now - entry.since,
      ...(entry.note === undefined ? undefined : { note: entry.note }),
      ...(entry.client === undefined ? undefined : { client: entry.client }),
    })),
    // The reserve is minted, but not used yet.
    lastToken: holder?.mode.kind === 'exclusive' ? holder.token : row.token,
  }
}

export function toHolder(hold: Hold, now: number): Holder {
  return {
    attempt: hold.attempt,
    mode: hold.mode,
    token: hold.token,
    heldFor: now - hold.since,
    expiresIn: hold.expires - now,
    ...(hold.note === undefined ? undefined : { note: hold.note }),
    ...(hold.client === undefined ? undefined : { client: hold.client }),
  }
}
