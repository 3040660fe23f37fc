/**
 * The interface of a driver to the fault lab: one file, `lab/faults/drivers/<name>.ts`, that exports `lab`. It starts the real servers,
 * passes each worker process their addresses, and lists the possible faults.
 */
import type { DriverFactory } from 'holdfast'
import type { CheckOptions, History, Rule, Violation } from 'holdfast/verify'
import type { WorkerPool } from './workers.js'

/** Plain data from which a worker process creates its client. */
export type Place = unknown

export interface LabDriver {
  /** One line for reports: what is running. */
  readonly about: string
  /** Called in the worker process, once per client. */
  client(place: Place): Client | Promise<Client>
  /** Called in the lab's process. */
  open(stage: Stage): Promise<Store>
  /** For a store inside the process that uses it (memory): one worker with this many clients. */
  readonly oneProcess?: number
  /** Milliseconds; runs with a shorter ttl use this one. */
  readonly leastTtl?: number
}

export interface Client {
  readonly driver: DriverFactory
  /** Simulates a busy application that shares the pool with the driver: takes all its connections for `ms`. */
  strain?(ms: number): void
  /** Takes a lock that is part of a transaction; undefined: not free within `wait` ms. */
  transaction?(name: string, wait: number): Promise<InTransaction | undefined>
  /** Its leases and its transactions are unaware of each other: the lab uses a name for one of them. @default false */
  readonly transactionsApart?: boolean
  close(): Promise<void> | void
}

export interface InTransaction {
  readonly token: number
  /** Rejects if the commit is not certain. */
  commit(): Promise<void>
}

export interface Stage {
  readonly workers: number
  /** The longest term of any lock, in ms: leases are extended to more than the ttl with which they are taken. */
  readonly ttl: number
  /** For histories and the store's own files. The lab removes it. */
  readonly folder: string
}

export interface Store {
  /** The address data for worker `n`. */
  place(n: number): Place
  /** A connection that bypasses all faults, for the final inspection. Absent: the workers report. */
  direct?(): Client | Promise<Client>
  /** Faults of the store and its connections; faults of any worker are added. */
  readonly faults: readonly Fault[]
  /** What a fault of a worker, or of an operator, excuses here. */
  excused?(fault: Fault): Fault
  /** Locks stay with their process for a while after some of their releases (`linger`). @default false */
  readonly lingers?: boolean
  /** Maximum ms after the last undo until every waiter is served. */
  readonly settles: number
  /** Guarantees this driver does not give during such faults, with the reason in a comment. */
  readonly check?: Pick<CheckOptions, 'fifo' | 'falseBusy'>
  /** A write of a plain client, past all faults. Absent: whether the store answers at the end is not recorded. */
  answers?(signal: AbortSignal): Promise<unknown>
  /** What the servers say of themselves and of each other, asked when a worker does not finish. Never rejects. */
  describe?(): Promise<string>
  /** Versions of what runs, for the report. */
  readonly versions: Readonly<Record<string, string>>
  close(): Promise<void>
}

export interface Fault {
  /** `pause worker`, `restart without data`. Counted under this name. */
  readonly kind: string
  /** One of these is chosen each time; a subject has one fault at a time. `worker 3`, `link 0`, `server 1`. */
  readonly subjects: readonly string[]
  /** Further subjects it occupies: no other fault acts on them meanwhile. */
  readonly also?: readonly string[]
  /** Relative frequency. @default 1 */
  readonly weight?: number
  /** Milliseconds, as shares of the ttl. @default [0.05, 3] */
  readonly lasts?: readonly [least: number, most: number]
  /** Minimum ms between two faults of this kind. @default 0 */
  readonly apart?: number
  /** Kinds of the same family are kept `apart` from each other, too. */
  readonly family?: string
  /** Stops no process and cuts no connection, so it does not affect order. */
  readonly gentle?: boolean
  /** Rules that, according to the driver's page, are not guaranteed for a while after this fault. Counted apart, never hidden. */
  readonly excuses?: readonly Excuse[]
  /** Injects the fault. Resolves with a function that undoes it. */
  begin(act: Act): Promise<Undo> | Undo
}

/**
 * What may be seen where a driver's page admits a second holder: the first one, until it learns of that, can still hand the lock on inside its
 * process, with a token that is smaller than the second one's. Not where the store mints the token of every hand-off.
 */
export const secondHolder: readonly Rule[] = ['exclusion', 'read-write', 'permits', 'tokens']

export interface Excuse {
  readonly rules: readonly Rule[]
  /** How long after the fault, in ms. */
  readonly within: number
  /** Only if one of these kinds was injected as well, at most `within` earlier or later. */
  readonly beside?: readonly string[]
  /** Only findings that what is known of the run explains. */
  readonly explains?: (history: History) => (violation: Violation) => boolean
  readonly why: string
}

export type Undo = (() => Promise<void> | void) | undefined

export interface Act {
  /** The chosen subject. */
  readonly subject: string
  /** The numbers in the subject's name: `link 3.1` has n 3 and m 1. For a worker or a link, the first one is the worker. */
  readonly n: number
  readonly m: number
  /** Duration in ms; then the lab undoes it. */
  readonly lasts: number
  /** In [0, 1), from the plan: strength or extent. */
  readonly amount: number
  readonly ttl: number
  readonly workerPool: WorkerPool
  /** Writes into the history what was measured. */
  note(kind: string, value: number): void
}

export function lab(driver: LabDriver): LabDriver {
  return driver
}
