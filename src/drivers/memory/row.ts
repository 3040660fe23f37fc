/** One name's row: who holds, who waits, what was minted. Plain data and the questions one can ask it. See `table.ts`. */
import type { Holder, Standing } from '../../core/driver.js'
import type { Mode } from '../../core/mode.js'

/** What one attempt asks for. */
export interface Ask {
  readonly attempt: string
  readonly mode: Mode
  /** Milliseconds a proof of holding is good for. */
  readonly ttl: number
  /** False: one try, never stands in line. */
  readonly wait: boolean
  /** The place it had in an earlier line, from the answer `waiting`: puts it ahead of those who came later. */
  readonly ticket?: number | undefined
  readonly note?: string | undefined
  readonly by?: string | undefined
}

/** One that waits. */
export interface Place {
  readonly attempt: string
  readonly mode: Mode
  readonly ttl: number
  readonly since: number
  /** Grows along the line. */
  readonly ticket: number
  readonly note: string | undefined
  readonly by: string | undefined
}

/** One that holds. */
export interface Hold {
  readonly attempt: string
  readonly mode: Mode
  readonly ttl: number
  readonly token: number
  /** The last token its process may pass on without asking; the token itself when there is no reserve. */
  readonly upTo: number
  readonly since: number
  readonly expires: number
  readonly note: string | undefined
  readonly by: string | undefined
}

export interface Row {
  readonly name: string
  /** The greatest token minted or reserved so far. */
  readonly token: number
  readonly held: readonly Hold[]
  readonly line: readonly Place[]
  /** Attempts that ended by release or cancel, newest first, at most {@link remembered}. */
  readonly ended: readonly string[]
}

/** How many ended attempts a row remembers: about one for each process that could be sending a release again. */
export const remembered = 16

export const none: readonly never[] = Object.freeze([])

/** A name nobody uses yet. `token` is a floor: every token will be greater. */
export function emptyRow(name: string, token = 0): Row {
  return { name, token, held: none, line: none, ended: none }
}

/** Written out, not spread: this is most of what an uncontended acquire and release do. */
export function rowOf(
  name: string,
  token: number,
  held: readonly Hold[],
  line: readonly Place[],
  ended: readonly string[],
): Row {
  return { name, token, held, line, ended }
}

/** Nobody holds or waits: the row may be forgotten if its token is kept as a floor. */
export function isIdle(row: Row): boolean {
  return row.held.length === 0 && row.line.length === 0
}

/** When the next hold is overdue; Infinity when none is held. */
export function nextExpiry(row: Row): number {
  let least = Infinity
  for (const hold of row.held) if (hold.expires < least) least = hold.expires
  return least
}

/** The limit of the semaphore, while anybody holds or waits for permits. */
export function limitOf(row: Row): number | undefined {
  for (const { mode } of row.held) if (mode.kind === 'permits') return mode.of
  for (const { mode } of row.line) if (mode.kind === 'permits') return mode.of
  return undefined
}

/** Who holds and who waits, as `inspect` shows it. */
export function standingOf(row: Row, now: number): Standing {
  const holder = row.held[0]
  return {
    name: row.name,
    holders: row.held.map((hold) => holderOf(hold, now)),
    waiters: row.line.map((place) => ({
      attempt: place.attempt,
      mode: place.mode,
      waitedFor: now - place.since,
      ...(place.note === undefined ? undefined : { note: place.note }),
      ...(place.by === undefined ? undefined : { by: place.by }),
    })),
    // A reserve is minted but not given yet.
    lastToken: holder?.mode.kind === 'exclusive' ? holder.token : row.token,
  }
}

export function holderOf(hold: Hold, now: number): Holder {
  return {
    attempt: hold.attempt,
    mode: hold.mode,
    token: hold.token,
    heldFor: now - hold.since,
    expiresIn: hold.expires - now,
    ...(hold.note === undefined ? undefined : { note: hold.note }),
    ...(hold.by === undefined ? undefined : { by: hold.by }),
  }
}
