/** What all locks of one `createLocks` share: the driver, time, chance, events, and who waits and holds in this process. */
import { randomFillSync } from 'node:crypto'
import { hostname } from 'node:os'
import { longestGoodbye, within } from './answer.js'
import { type Clock, systemClock } from './clock.js'
import type { Driver, DriverFactory, Env, Traits } from './driver.js'
import { BackendError } from './errors.js'
import { Events } from './events.js'
import { LockOrder } from './lock-order.js'
import { type Defaults, resolveDefaults, type Terms } from './options.js'
import { Overtaken } from './overtaken.js'
import { Line } from './queue.js'
import { Timetable } from './timetable.js'
import { Unarmed } from './wait.js'

const idleLinesKept = 256
const limitsKept = 10_000

export class Engine {
  readonly driver: Driver
  readonly clock: Clock
  readonly env: Env
  readonly random: () => number
  readonly defaults: Terms
  readonly events: Events = new Events()
  readonly timetable: Timetable
  readonly unarmed: Unarmed
  readonly order: LockOrder = new LockOrder()
  readonly overtaken: Overtaken = new Overtaken()
  /** The local lines by name: of those who hold or wait in this process, and a few idle ones that may be wanted again. */
  readonly lines: Map<string, Line> = new Map()
  readonly #limits = new Map<string, number>()
  readonly #later = new Set<() => void>()
  readonly #givingBack = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  constructor(factory: DriverFactory, defaults: Defaults | undefined, env: Env) {
    this.env = env
    this.clock = env.clock
    this.random = env.random
    this.timetable = new Timetable(env.clock)
    this.unarmed = new Unarmed(env.clock)
    this.driver = driverOf(factory, env)
    this.defaults = resolveDefaults(this.driver.name, this.driver.traits, defaults)
  }

  get traits(): Traits {
    return this.driver.traits
  }

  get closed(): boolean {
    return this.#closing !== undefined
  }

  /** @throws BackendError with code CLOSED */
  assertOpen(): void {
    if (this.closed) throw this.closedError()
  }

  closedError(): BackendError {
    return new BackendError(this.driver.name, 'these locks were closed; make new ones with createLocks()', {
      closed: true,
    })
  }

  line(name: string): Line {
    let line = this.lines.get(name)
    if (line === undefined) {
      line = new Line(this, name)
      this.lines.set(name, line)
    }
    return line
  }

  /** Nobody holds or waits in this line any more. */
  idle(line: Line): void {
    if (this.lines.size > idleLinesKept) this.lines.delete(line.name)
  }

  /**
   * The limit this process already uses a semaphore name with, if any; the given one is remembered otherwise. The store has
   * the last word: names beyond the newest ten thousand are forgotten here.
   */
  limitOf(name: string, limit: number): number {
    const known = this.#limits.get(name)
    if (known !== undefined) return known
    this.#limits.set(name, limit)
    const [oldest] = this.#limits.keys()
    if (this.#limits.size > limitsKept && oldest !== undefined) this.#limits.delete(oldest)
    return limit
  }

  /** Gives a grant back that nobody waits for; `close()` waits for it. */
  giveBack(release: Promise<unknown>): void {
    const done = () => this.#givingBack.delete(release)
    this.#givingBack.add(release)
    release.then(done, done)
  }

  /** Background work at a later moment, which neither keeps the process alive nor outlives `close()`. */
  later(at: number, fn: () => void): void {
    if (this.closed) return
    const cancel = this.clock.at(
      at,
      () => {
        this.#later.delete(cancel)
        fn()
      },
      { ref: false },
    )
    this.#later.add(cancel)
  }

  /** Rejects who waits, gives back what is held, then closes the driver. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    // The first await comes after #closing is set: nothing can join a line any more.
    await undefined
    await Promise.all([...this.lines.values()].map((line) => line.close()))
    await within(this, longestGoodbye, Promise.allSettled(this.#givingBack), () => undefined)
    for (const cancel of this.#later) cancel()
    this.#later.clear()
    this.timetable.clear()
    await this.driver.close()
    this.events.clear()
  }
}

export function systemEnv(): Env {
  return { clock: systemClock(), id: randomId, random: Math.random, by: `${hostname()}:${process.pid}` }
}

/** Random bytes are fetched for many ids at once: one call to the generator costs more than a local hand-over. */
const pool = Buffer.alloc(16 * 256)
let used = pool.length

function randomId(): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += 16
  return pool.toString('hex', used - 16, used)
}

/** `createLocks(redis)` for `createLocks(redis({ … }))` is easily written. */
function driverOf(factory: DriverFactory, env: Env): Driver {
  const driver: Driver | undefined = factory(env)
  if (driver?.traits !== undefined) return driver
  throw new TypeError(
    `createLocks takes what memory() or redis({ client }) gives, got ${factory.name || 'a function'} itself`,
  )
}
