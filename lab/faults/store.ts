/**
 * What a driver brings to the fault lab: one file, `lab/faults/drivers/<name>.ts`, that exports `lab`. It starts the real servers,
 * tells each worker process how to reach them, and lists what can be done to them.
 */
import type { DriverFactory } from 'holdfast'
import type { CheckOptions, Rule } from 'holdfast/verify'
import type { Crew } from './crew.js'

/** What a worker process needs to get its client: plain data. */
export type Place = unknown

export interface LabDriver {
  /** One line for reports: what is running. */
  readonly about: string
  /** In the worker process, once for every client in it. */
  client(place: Place): Client | Promise<Client>
  /** In the process of the lab. */
  open(stage: Stage): Promise<Store>
  /** Where the store lives inside the process that uses it (memory): one worker with so many clients. */
  readonly oneProcess?: number
  /** Milliseconds; runs that ask for a shorter ttl get this one. */
  readonly leastTtl?: number
}

export interface Client {
  readonly driver: DriverFactory
  /** What a busy application does to what it shares with the driver: all connections of the pool are taken for so long. */
  strain?(ms: number): void
  close(): Promise<void> | void
}

export interface Stage {
  readonly workers: number
  /** The ttl of all locks, in ms. */
  readonly ttl: number
  /** For histories and for what the store wants to keep. Removed by the lab. */
  readonly folder: string
}

export interface Store {
  /** How worker `n` reaches the store. */
  place(n: number): Place
  /** A way around all faults, to look at what is left in the end. Absent: the workers tell. */
  direct?(): Client | Promise<Client>
  /** What can be done to the store and to its connections; what can be done to any worker is added. */
  readonly faults: readonly Fault[]
  /** All is undone: after so many ms at most every waiter is served. */
  readonly settles: number
  /** What this driver does not promise while such faults go on, with the reason in a comment. */
  readonly check?: Pick<CheckOptions, 'fifo' | 'falseBusy'>
  /** Versions of what runs, for the report. */
  readonly versions: Readonly<Record<string, string>>
  close(): Promise<void>
}

export interface Fault {
  /** `pause worker`, `restart without data`. Counted under this name. */
  readonly kind: string
  /** One of these is chosen each time; a subject has one fault at a time. `worker 3`, `link 0`, `server 1`. */
  readonly subjects: readonly string[]
  /** What it takes up besides: nothing else is done to these meanwhile. */
  readonly also?: readonly string[]
  /** How often it is chosen, beside others. @default 1 */
  readonly weight?: number
  /** Milliseconds, as shares of the ttl. @default [0.05, 3] */
  readonly lasts?: readonly [least: number, most: number]
  /** At least so many ms between two of this kind. @default 0 */
  readonly apart?: number
  /** Rules the driver's page says are not promised for a while after this fault. Counted apart, never hidden. */
  readonly excuses?: readonly Excuse[]
  /** Does it. Resolves with what undoes it. */
  begin(act: Act): Promise<Undo> | Undo
}

export interface Excuse {
  readonly rules: readonly Rule[]
  /** For so long after the fault, in ms. */
  readonly within: number
  /** Only where one of these kinds was done as well, at most `within` earlier or later. */
  readonly beside?: readonly string[]
  readonly why: string
}

export type Undo = (() => Promise<void> | void) | undefined

export interface Act {
  /** Which of the subjects. */
  readonly subject: string
  /** The numbers in the subject's name: `link 3.1` has n 3 and m 1. A worker's or a link's first one is the worker. */
  readonly n: number
  readonly m: number
  /** How long it is to last, in ms; the lab undoes it then. */
  readonly lasts: number
  /** In [0, 1), from the plan: how strong, how far. */
  readonly amount: number
  readonly ttl: number
  readonly crew: Crew
}

export function lab(driver: LabDriver): LabDriver {
  return driver
}
