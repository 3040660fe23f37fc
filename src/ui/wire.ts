/**
 * What the server sends to the page. Plain data; every text in it may come from anybody who can take a lock, so the page shows it as text
 * and nothing else. All times are milliseconds since 1970 by the clock of the server process: `now` of a message lets the browser convert.
 */

/** A hold that the store lists now. */
export interface Hold {
  readonly attempt: string
  /** `exclusive`, `shared`, `2 of 5`. */
  readonly mode: string
  readonly token: number
  /** When the store granted it. */
  readonly since: number
  /** When it ends unless it is renewed; null: bound to a connection. */
  readonly until: number | null
  /** How long it had waited, where it was seen waiting. */
  readonly waited?: number
  readonly client?: string
  readonly note?: string
}

export interface Waiting {
  readonly attempt: string
  readonly mode: string
  readonly since: number
  readonly client?: string
  readonly note?: string
}

/** A name with a holder or waiter. */
export interface Entry {
  readonly name: string
  /** When the store was last asked about it. */
  readonly at: number
  readonly holders: readonly Hold[]
  /** The first {@link mostWaiters} in the queue. */
  readonly waiters: readonly Waiting[]
  /** All in the queue. */
  readonly waiting: number
}

/** How many waiters of one name are sent. */
export const mostWaiters = 100

/**
 * `ended`: released, or taken by force elsewhere, which looks the same in the store. `lost`: its time ran out without a renewal.
 * `forced`: taken by force from this page. `unseen`: it ended at some time after it was last seen, while nobody looked.
 */
export type End = 'ended' | 'lost' | 'forced' | 'unseen'

/** A hold that is over. */
export interface Past extends Omit<Hold, 'until'> {
  readonly name: string
  /** When it ended, as closely as the samples tell. */
  readonly to: number
  readonly end: End
  /** The reason given for a forced release. */
  readonly why?: string
}

/** A wait that ended without a grant. */
export interface GaveUp {
  readonly name: string
  readonly at: number
  readonly waited: number
}

/** What `holdfast doctor` says. */
export interface Finding {
  readonly level: 'problem' | 'warning' | 'unknown' | 'ok'
  readonly what: string
  readonly found: string
  readonly means?: string
  readonly remedy?: string
}

export interface Health {
  /** `starting`: nothing has been read yet. */
  readonly state: 'starting' | 'ok' | 'trouble'
  /** How long the last sample took, in ms. */
  readonly took: number
  /** How long until the next one, in ms. */
  readonly every: number
  /** Why the store cannot be read. */
  readonly trouble?: string
}

/** A period in which nobody looked, and nothing was read. */
export interface Gap {
  readonly from: number
  readonly to: number
}

/** One store, whole: the first thing a browser gets. */
export interface StoreState {
  readonly id: string
  /** The driver's name. */
  readonly driver: string
  /** What it is: a URL without its password. */
  readonly about: string
  readonly health: Health
  readonly entries: readonly Entry[]
  readonly past: readonly Past[]
  readonly gaveUp: readonly GaveUp[]
  readonly gaps: readonly Gap[]
  /** Absent: not examined. */
  readonly doctor?: readonly Finding[]
  readonly examines: boolean
  readonly canRelease: boolean
  /** Holders can be asked to give way first. */
  readonly canAsk: boolean
  readonly lists: boolean
}

export interface Init {
  readonly now: number
  /** Sent back with a release; only a page of this origin can read it. */
  readonly key: string
  /** How far back the history goes, in ms. */
  readonly keeps: number
  readonly stores: readonly StoreState[]
}

/** What changed in one store since the last message. */
export interface Tick {
  readonly now: number
  readonly id: string
  readonly health: Health
  readonly changed: readonly Entry[]
  readonly gone: readonly string[]
  readonly past: readonly Past[]
  readonly gaveUp: readonly GaveUp[]
  readonly gap?: Gap
  readonly doctor?: readonly Finding[]
}
