/** What the suite needs to know of a store: how to get a client of it, and how to break it. */
import type { DriverFactory, Traits } from 'holdfast'

export interface Fixture {
  /** Shown in the name of the suite. */
  readonly name: string
  /** What the driver says of itself; the suite decides by it which behaviour to ask for. */
  readonly traits: Traits
  /** One more client of the same store, independent of the others as if it ran in a process of its own. No I/O. */
  make(): DriverFactory
  readonly breakage: Breakage
  /** How a child process gets a client of the same store. Needed where `traits.shared`. */
  readonly taker?: Taker
  /**
   * A ttl in ms short enough to wait for its end, long enough to be renewed reliably. Raised to `traits.minTtl`.
   * @default 1_000
   */
  readonly ttl?: number
  /** The longest the store may take, in ms, for what it does at once when it is well; also the check for leaks. @default 10_000 */
  readonly patience?: number
  /** A release must reach the next waiter of another client within so many ms, as a median. @default 100 */
  readonly handOver?: number
  /** The longest a single test may take, in ms. @default 180_000 */
  readonly limit?: number
}

/** How to break this store, for the tests of what must hold when it is broken. */
export interface Breakage {
  /**
   * Pulls the cable of the client that `make` returned: what it sends is not answered any more. Connections that
   * are closed instead are a weaker test, but allowed.
   */
  cut(client: DriverFactory): Promise<void> | void
  /** Undoes every `cut` and `stop`. */
  heal(): Promise<void> | void
  /** The whole store is gone for everybody: killed, or paused. Absent: it cannot be, as in memory. */
  stop?(): Promise<void> | void
  /**
   * Takes the hold of `name` away behind the driver's back: expired, deleted, session ended. Absent: `forceRelease` is used.
   */
  loseHold?(name: string): Promise<void>
}

/** Names a function in a module that makes a driver; a child process imports and calls it. */
export interface Taker {
  /** URL of the module: `import.meta.resolve('holdfast/local')`, `new URL('./x.js', import.meta.url).href`. */
  readonly module: string
  /** The exported function; returns a `DriverFactory` or a promise of one. */
  readonly export: string
  /** Its arguments: plain data. */
  readonly args?: readonly unknown[]
}

/** The part of a test runner that is used: `node:test`, Vitest, Mocha and Jest all have it. */
export interface Runner {
  describe(name: string, fn: () => void): unknown
  it(name: string, fn: () => Promise<void>): unknown
}
