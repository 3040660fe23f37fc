/** What the suite needs from a store: how to create a client, and how to break the store. */
import type { DriverFactory, Traits } from 'holdfast'
import type { PromiseColumn } from './scenario/column.js'

export interface Fixture {
  /** Part of the suite's name. */
  readonly name: string
  /** The driver's traits; they decide which behaviour the suite requires. */
  readonly traits: Traits
  /** Creates another client of the same store, independent as if it ran in its own process. No I/O. */
  make(): DriverFactory
  readonly faults: Faults
  /** How a child process gets a client of the same store. Required if `traits.shared`. */
  readonly childClient?: ChildClient
  /**
   * A ttl in ms short enough to wait for its end, long enough to be renewed reliably. Raised to `traits.minTtl`.
   * @default 1_000
   */
  readonly ttl?: number
  /**
   * The longest the store may take, in ms, for operations that are immediate while it is well; also limits the leak check. On a machine
   * with more tasks than processors it may take proportionally longer.
   * @default 10_000
   */
  readonly timeout?: number
  /** Maximum time from a release to the next waiter on another client, in ms, as a median. @default 100 */
  readonly handOver?: number
  /**
   * After a forced release, the store notifies a holder that waited for its lease at once; otherwise the holder learns it at the next renewal.
   * @default false
   */
  readonly reportsLoss?: boolean
  /**
   * Called after the whole scenario, with the driver's column of the table driver × promise: to print it with `promiseTable`, or to compare
   * it with a printed one. An exception fails the test.
   */
  promises?(column: PromiseColumn): void | Promise<void>
  /** Timeout of a single test, in ms. @default 180_000 */
  readonly testTimeout?: number
}

/** How to break this store, for tests of what must hold while it is broken. */
export interface Faults {
  /**
   * Cuts off the client that `make` returned: its requests get no reply any more. Closing the connections instead is a weaker test, but allowed.
   */
  cut(client: DriverFactory): Promise<void> | void
  /** Undoes every `cut` and `stop`. */
  heal(): Promise<void> | void
  /** Takes the whole store down for every client: killed, or paused. Absent: impossible, as in memory. */
  stop?(): Promise<void> | void
  /**
   * Removes the hold of `name` behind the driver's back: expired, deleted, session ended. Absent: the suite uses `forceRelease`.
   */
  loseHold?(name: string): Promise<void>
}

/** Names a function in a module that creates a driver; a child process imports and calls it. */
export interface ChildClient {
  /** URL of the module: `import.meta.resolve('holdfast/local')`, `new URL('./x.js', import.meta.url).href`. */
  readonly module: string
  /** The exported function; returns a `DriverFactory` or a promise of one. */
  readonly export: string
  /** Its arguments: plain data. */
  readonly args?: readonly unknown[]
}

/** The used part of a test runner: `node:test`, Vitest, Mocha and Jest all have it. */
export interface Runner {
  describe(name: string, fn: () => void): unknown
  it(name: string, fn: () => Promise<void>): unknown
}
