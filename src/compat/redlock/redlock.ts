/**
 * The class of the `redlock` package, versions 4 and 5, over the drivers of holdfast.
 *
 * ```
 *   acquire(resources, duration) ──► locks.all([mutex…]): tryAcquire, then acquire({ wait: retryCount × retryDelay })
 *   using(…)                     ──► the same with autoRenew: true
 *   Lock ── WeakMap ──► Lease      extend: the lease goes on under a new Lock
 * ```
 * Long because the class of the package has all verbs.
 */
import { EventEmitter } from 'node:events'
import {
  AcquireTimeoutError,
  createLocks,
  type DriverFactory,
  type Lease,
  type Locks,
  type Lock as OwnLock,
} from 'holdfast'
import type { RedisClient } from 'holdfast/redis'
import { type Callback, callBack, checkDuration, quoted, textOf, toDriver } from './arguments.js'
import { describe } from './describe.js'
import { ExecutionError, type ExecutionResult, type ExecutionStats, ResourceLockedError } from './errors.js'
import { Lock } from './lock.js'
import { type Settings, toSettings, totalWait } from './settings.js'

/** `error`: why the lease was lost, as in the package. */
export type RedlockAbortSignal = AbortSignal & { error?: Error }

type Routine<T> = (signal: RedlockAbortSignal) => Promise<T>

export class Redlock extends EventEmitter {
  /** Where version 4 has its error: the same class as {@link ExecutionError}. */
  static readonly LockError: typeof ExecutionError = ExecutionError
  static readonly Lock: typeof Lock = Lock
  readonly clients: Set<RedisClient>
  readonly settings: Settings
  readonly #locks: Locks
  readonly #leases = new WeakMap<Lock, Lease>()

  /**
   * @param over one client (a single server, Sentinels, a Cluster), three or more clients of independent servers, or any
   * driver of holdfast. Clients stay yours until `quit()`.
   * @throws TypeError, RangeError for settings or clients that cannot be used; custom scripts are refused
   */
  constructor(
    over: Iterable<RedisClient> | DriverFactory,
    settings?: Partial<Settings>,
    ...rest: readonly unknown[]
  ) {
    super()
    if (rest.some((one) => one !== undefined && Object.keys(Object(one)).length > 0))
      throw new TypeError('Redlock takes no scripts of your own here: holdfast has its own protocol')
    // As in the package: an `error` event without a listener is not thrown.
    this.on('error', () => undefined)
    this.settings = toSettings(settings)
    const isDriver = typeof over === 'function'
    this.clients = new Set(isDriver ? [] : over)
    this.#locks = createLocks(isDriver ? over : toDriver([...this.clients], this.settings))
  }

  /** Releases what is held, and calls `quit()` of every client. */
  async quit(): Promise<void> {
    await this.#locks.close()
    await Promise.all(
      [...this.clients].map((client) => (client as unknown as { quit(): Promise<unknown> }).quit()),
    )
  }

  /**
   * @param resources names; version 4 also takes a single one. All are acquired, or none.
   * @param duration how long the lock lasts without `extend`, in whole ms
   * @throws ExecutionError when a resource was not free within `retryCount × retryDelay` ms, or the servers did not
   * answer; TypeError, RangeError for arguments that cannot be used
   */
  async acquire(
    resources: string | readonly string[],
    duration: number,
    settings?: Partial<Settings>,
  ): Promise<Lock> {
    return await this.#acquire(resources, duration, toSettings(settings, this.settings), false)
  }

  /** @throws ExecutionError when the lock was no longer held, or the servers did not answer */
  async release(lock: Lock, settings?: Partial<Settings>): Promise<ExecutionResult> {
    toSettings(settings, this.settings)
    const lease = this.#findLease(lock)
    // In the package every instance over the same servers can end it.
    if (lock.redlock !== this) return lock.redlock.release(lock)
    lock.expiration = 0
    this.#leases.delete(lock)
    const outcome = (await lease?.release()) ?? 'lost'
    if (outcome === 'released') return { attempts: lock.attempts }
    const why = outcome === 'unknown' ? 'the servers did not answer' : 'the lock was no longer held'
    throw this.#failed(`Cannot release ${quoted(lock.resources)}: ${why}.`, new ResourceLockedError(why))
  }

  /**
   * @param duration how long the lock lasts from now on, in whole ms
   * @throws ExecutionError when the lock is no longer held, or the servers did not answer
   */
  async extend(existing: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    checkDuration(duration)
    const { driftFactor } = toSettings(settings, this.settings)
    const lease = this.#findLease(existing)
    if (existing.redlock !== this) return existing.redlock.extend(existing, duration, settings)
    if (lease === undefined || !lease.isHeld)
      throw this.#failed(`Cannot extend ${quoted(existing.resources)}: the lock is over.`)
    const asked = Date.now()
    try {
      await lease.extend(duration)
    } catch (error) {
      throw this.#failed(`Cannot extend ${quoted(existing.resources)}: ${textOf(error)}`, error)
    }
    existing.expiration = 0
    this.#leases.delete(existing)
    return this.#toLock(lease, existing.resources, asked, duration, driftFactor)
  }

  /**
   * Runs `routine` under a lock that is renewed for as long as it runs. `signal` aborts when the lock is lost; `signal.error`
   * says why.
   * @throws what `routine` threw; ExecutionError as `acquire`, and when the lock was lost before the end: then, as in the
   * package, also instead of what `routine` threw, which is its `cause`
   */
  using<T>(resources: readonly string[], duration: number, routine: Routine<T>): Promise<T>
  using<T>(
    resources: readonly string[],
    duration: number,
    settings: Partial<Settings>,
    routine: Routine<T>,
  ): Promise<T>
  async using<T>(
    resources: readonly string[],
    duration: number,
    ...rest: readonly [Routine<T>] | readonly [Partial<Settings>, Routine<T>]
  ): Promise<T> {
    const routine = rest.at(-1)
    if (typeof routine !== 'function')
      throw new TypeError(`using() takes a function last, got ${describe(routine)}`)
    const settings = toSettings(rest.length === 2 ? (rest[0] as Partial<Settings>) : {}, this.settings)
    if (settings.automaticExtensionThreshold > duration - 100)
      throw new RangeError(
        `duration must be at least 100 ms more than automaticExtensionThreshold (${settings.automaticExtensionThreshold}), got ${duration}`,
      )
    const lock = await this.#acquire(resources, duration, settings, true)
    const lease = this.#leases.get(lock) as Lease
    const controller = new AbortController()
    const signal: RedlockAbortSignal = controller.signal
    const lost = () => {
      signal.error = lease.signal.reason
      controller.abort(lease.signal.reason)
    }
    lease.signal.addEventListener('abort', lost, { once: true })
    let failure: { readonly error: unknown } | undefined
    try {
      return await routine(signal)
    } catch (error) {
      failure = { error }
      throw error
    } finally {
      lease.signal.removeEventListener('abort', lost)
      await this.release(lock).catch((error: ExecutionError) => {
        if (failure !== undefined) error.cause = failure.error
        throw error
      })
    }
  }

  /** `acquire` in version 4, with a promise or a callback. */
  lock(resource: string | readonly string[], ttl: number, done?: Callback<Lock>): Promise<Lock> {
    return callBack(this.acquire(resource, ttl), done)
  }

  /** `acquire` with settings in version 4, with a promise or a callback. */
  lockWithOptions(
    resource: string | readonly string[],
    ttl: number,
    settings: Partial<Settings>,
    done?: Callback<Lock>,
  ): Promise<Lock> {
    return callBack(this.acquire(resource, ttl, settings), done)
  }

  /** `release` in version 4, with a promise or a callback. */
  unlock(lock: Lock, done?: Callback<ExecutionResult>): Promise<ExecutionResult> {
    return callBack(this.release(lock), done)
  }

  async #acquire(
    resources: string | readonly string[],
    duration: number,
    settings: Settings,
    autoRenew: boolean,
  ): Promise<Lock> {
    checkDuration(duration)
    const names = [...new Set(typeof resources === 'string' ? [resources] : resources)]
    const [first] = names
    if (first === undefined) throw new RangeError('acquire() takes one or more resources, got none')
    const mutexes = names.map((name) => this.#locks.mutex(name))
    const lock: OwnLock = names.length === 1 ? (mutexes[0] as OwnLock) : this.#locks.all(mutexes)
    const options = { ttl: duration, autoRenew }
    const wait = totalWait(settings)
    let asked = Date.now()
    try {
      // The first attempt takes what it takes, connecting included; the retry window begins after it.
      let lease = wait === 0 ? undefined : await lock.tryAcquire(options)
      if (lease === undefined) {
        asked = Date.now()
        lease = await lock.acquire({ ...options, wait })
      }
      return this.#toLock(lease, names, asked, duration, settings.driftFactor)
    } catch (error) {
      if (error instanceof TypeError || error instanceof RangeError) throw error
      throw this.#failed(`Cannot acquire ${quoted(names)}: ${textOf(error)}`, error)
    }
  }

  #toLock(lease: Lease, resources: readonly string[], asked: number, duration: number, drift: number): Lock {
    const expiration = Math.min(
      Date.now() + Math.floor(lease.remaining()),
      asked + duration - Math.round(drift * duration) - 2,
    )
    const stats = this.#stats()
    const lock = new Lock(this, resources, String(lease.token), [Promise.resolve(stats)], expiration)
    this.#leases.set(lock, lease)
    return lock
  }

  #findLease(lock: Lock): Lease | undefined {
    if (!(lock instanceof Lock)) throw new TypeError(`expected a Lock of this Redlock, got ${describe(lock)}`)
    return this.#leases.get(lock)
  }

  #failed(message: string, cause?: unknown): ExecutionError {
    const error =
      cause instanceof AcquireTimeoutError ? new ResourceLockedError(cause.message, { cause }) : cause
    const reported = error instanceof Error ? error : new Error(message)
    this.emit('error', reported)
    this.emit('clientError', reported)
    return new ExecutionError(message, [Promise.resolve(this.#stats(reported))], cause)
  }

  #stats(error?: Error): ExecutionStats {
    const size = Math.max(this.clients.size, 1)
    const clients: readonly unknown[] = this.clients.size > 0 ? [...this.clients] : [this.#locks.driver.name]
    return {
      membershipSize: size,
      quorumSize: Math.floor(size / 2) + 1,
      votesFor: new Set(error === undefined ? clients : []),
      votesAgainst: new Map(error === undefined ? [] : clients.map((client) => [client, error])),
    }
  }
}
