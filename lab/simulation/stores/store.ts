/** What a run needs from a store: drivers for its processes, and the possible faults. */
import type { Ability, DriverFactory } from 'holdfast'
import type { Violation } from 'holdfast/verify'
import type { SimulatedProcess } from '../process.js'
import type { World } from '../world.js'

export interface SimulatedStore {
  /** A driver for that process. */
  driver(process: SimulatedProcess): DriverFactory
  readonly faults: Partial<Record<StoreFault, (ms: number, process: SimulatedProcess) => void>>
  /** A process has been killed: its connections end. */
  killed(process: SimulatedProcess): void
  /** Names that are held or waited for, as the store itself sees it. */
  left(): readonly string[]
  /** When a process noticed that one of its connections had broken, in ms of the world. Only for stores with `caching`. */
  breaks?(process: number): readonly number[]
  /** Does the driver's page admit the finding? Absent: it admits nothing. */
  excuses?(found: Violation): boolean
  /** The world is over. */
  end?(): void
}

/**
 * `cut`: connections of one process · `cutAll`: of everybody · `freeze`: the server is frozen · `slow`: the network is slow · `restart`: without its
 * data · `restartOlder`: with older data · `flush`: its data are deleted.
 */
export type StoreFault =
  | 'cut'
  | 'cutAll'
  | 'freeze'
  | 'slow'
  | 'restart'
  | 'restartOlder'
  | 'flush'
  | 'clockBack'
  | 'forgetScripts'

export interface StoreKind {
  readonly name: string
  readonly abilities: readonly Ability[]
  readonly faults: readonly StoreFault[]
  /** Do processes share it? If not, all clocks run alike: they are tasks of one process. */
  readonly shared: boolean
  /** May a process keep a lock after its release (`linger`)? */
  readonly caching?: boolean
  /** How long after the last fault a lock that nobody can release stays taken, in ms. */
  readonly liveWithin: number
  make(world: World): SimulatedStore
}
