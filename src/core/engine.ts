/** What all locks of one `createLocks` share: the driver, time, randomness, events, and the holders and waiters of this process. */
import { randomFillSync } from 'node:crypto'
import { hostname } from 'node:os'
import { CachedGrants } from './caching.js'
import { type Clock, systemClock } from './clock.js'
import type { Driver, DriverFactory, Env, Traits } from './driver.js'
import { BackendError, unavailable } from './errors.js'
import { Events, type StoreOperation } from './events.js'
import { KeyedMutex } from './keyed-mutex.js'
import { Leaks, type LeakTerms } from './leaks.js'
import { LocalQueue } from './local-queue.js'
import { LockOrder } from './lock-order.js'
import {
  type Defaults,
  defaultsOver,
  type ParticipantDefaults,
  participantDefaults,
  resolveDefaults,
  type Terms,
} from './options.js'
import { Pending } from './pending.js'
import { PermitLimits } from './permit-limits.js'
import { Releases } from './releases.js'
import { TimerQueue } from './timer-queue.js'
import { LazyTimers } from './wait-deadline.js'
import { closeTimeout, withTimeout } from './with-timeout.js'

const maxIdleQueues = 256

export class Engine {
  readonly driver: Driver
  readonly clock: Clock
  readonly env: Env
  readonly random: () => number
  readonly defaults: Terms
  readonly events: Events = new Events()
  readonly timers: TimerQueue
  readonly lazyTimers: LazyTimers
  readonly order: LockOrder = new LockOrder()
  readonly cellUpdates: KeyedMutex = new KeyedMutex()
  readonly pending: Pending = new Pending()
  readonly limits: PermitLimits = new PermitLimits()
  readonly releases: Releases = new Releases(this)
  /** Undefined: leaks are not looked for. */
  readonly leaks: Leaks | undefined
  /** The local queues by name: those with holders or waiters in this process, and a few idle ones that may be needed again. */
  readonly queues: Map<string, LocalQueue> = new Map()
  readonly cached: CachedGrants = new CachedGrants()
  readonly #later = new Set<() => void>()
  #closing: Promise<void> | undefined

  constructor(factory: DriverFactory, defaults: Defaults | undefined, env: Env, leaks?: LeakTerms) {
    this.env = env
    this.clock = env.clock
    this.random = env.random
    this.timers = new TimerQueue(env.clock)
    this.lazyTimers = new LazyTimers(env.clock)
    this.driver = createDriver(factory, env)
    this.leaks = leaks && new Leaks(this, leaks)
    this.defaults = resolveDefaults(this.driver.name, this.driver.traits, defaults)
  }

  get traits(): Traits {
    return this.driver.traits
  }

  /** The defaults of one lock over those of all. @param whose as in a message: `mutex()` */
  resolveDefaults(whose: string, given: Defaults | undefined): Terms {
    return defaultsOver(whose, this.driver.name, this.traits, this.defaults, given)
  }

  /** The same for latches and barriers, where every waiter is a participant. */
  resolveParticipantDefaults(whose: string, given: ParticipantDefaults | undefined): Terms {
    const { driver, traits, defaults } = this
    const terms = defaultsOver(whose, driver.name, traits, defaults, given, participantDefaults)
    return { ...terms, maxPending: Number.POSITIVE_INFINITY }
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

  queue(name: string): LocalQueue {
    let queue = this.queues.get(name)
    if (queue === undefined) {
      queue = new LocalQueue(this, name)
      this.queues.set(name, queue)
    }
    return queue
  }

  /** This queue has no holders or waiters any more. */
  idle(queue: LocalQueue): void {
    if (this.queues.size <= maxIdleQueues) return
    // Not at once: the caller that ended the last hold here may be about to add a hold or a waiter.
    queueMicrotask(() => {
      if (queue.isEmpty && this.queues.get(queue.name) === queue) this.queues.delete(queue.name)
    })
  }

  /** Background work at a later moment. It neither keeps the process alive nor outlives `close()`. */
  schedule(at: number, fn: () => void): () => void {
    if (this.closed) return () => undefined
    const run = () => {
      this.#later.delete(cancel)
      fn()
    }
    const cancel = this.clock.at(at, run, { ref: false })
    this.#later.add(cancel)
    return () => void (this.#later.delete(cancel) && cancel())
  }

  /**
   * Keeps the process alive until `work` settles: a caller awaits it, and a driver's timers do not keep the process
   * alive. Otherwise Node would end the process midway, with exit code 0.
   */
  async keepAliveDuring<T>(work: Promise<T>): Promise<T> {
    const stop = this.clock.at(Number.POSITIVE_INFINITY, () => undefined)
    try {
      return await work
    } finally {
      stop()
    }
  }

  /** One request of an operator; its failure is an event, too. A store that did not answer it is `UNAVAILABLE`. */
  asked<T>(operation: StoreOperation, name: string | undefined, work: Promise<T>): Promise<T> {
    const { driver, clock } = this
    const from = clock.now()
    return this.keepAliveDuring(
      work.catch((error: unknown) => {
        if (!(error instanceof BackendError)) throw error
        const why =
          error.code === 'BACKEND' ? unavailable(driver.name, name, clock.now() - from, error) : error
        this.events.storeFailed(driver.name, name, operation, why)
        throw why
      }),
    )
  }

  /** Rejects all waiters, releases all holds, then closes the driver. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.keepAliveDuring(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    // The first await comes after #closing is set: nothing can join a queue any more.
    await undefined
    await Promise.all([...this.queues.values()].map((queue) => queue.close()))
    await withTimeout(this, closeTimeout, this.releases.close(), () => undefined)
    this.releases.end()
    for (const cancel of this.#later) cancel()
    this.#later.clear()
    this.timers.clear()
    await this.driver.close()
    this.lazyTimers.close()
    this.events.clear()
  }
}

export function systemEnv(): Env {
  return { clock: systemClock(), id: randomId, random: Math.random, client: `${hostname()}:${process.pid}` }
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

/** It is easy to write `createLocks(redis)` for `createLocks(redis({ … }))`. */
function createDriver(factory: DriverFactory, env: Env): Driver {
  const driver: Driver | undefined = factory(env)
  if (driver?.traits !== undefined) return driver
  throw new TypeError(
    `createLocks takes what memory() or redis({ client }) gives, got ${factory.name || 'a function'} itself`,
  )
}
