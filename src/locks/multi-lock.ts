/**
 * Several locks as one: all or nothing.
 * Long because both ways of taking them, and what undoes either, are read together.
 *
 * Where one store holds all of them and its driver supports it, they are requested in one step: all are granted or
 * none is touched, so nobody waits for the rest while holding a part. A single attempt needs no more than that. A
 * wait begins so; if it finds one of them taken, it goes on as everywhere else:
 *
 * They are acquired one after the other in one canonical order, whatever order they were given in, so two callers
 * that want the same locks cannot wait for each other in a ring. They may be of different stores: then names come
 * first, and drivers second; the same name in two stores of one kind is taken in the order given. `wait` bounds the
 * whole. When one of them is not granted, those already acquired are released in reverse order before the call
 * settles.
 */
import { EngineLock, type Lock } from '../core/acquire.js'
import { mayBeCached } from '../core/caching.js'
import { ClaimBatch } from '../core/claim-batch.js'
import { duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError, BackendError, unavailable } from '../core/errors.js'
import type { HeldLease } from '../core/lease.js'
import { checkFunction, describe, quote } from '../core/name.js'
import { type AcquireOptions, checkOptions, checkSingle, type TryOptions } from '../core/options.js'
import { runInside } from '../core/reentrancy.js'
import { checkWaitOptions, type WaitOptions } from '../core/with-deadline.js'
import { CompositeLease, type MultiLease } from './multi-lease.js'

export interface MultiLock extends Lock {
  acquire(options?: AcquireOptions): Promise<MultiLease>
  tryAcquire(options?: TryOptions): Promise<MultiLease | undefined>
  run<R>(fn: (lease: MultiLease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R>
  /** Resolves once all of them could have been acquired together; costs and errors are those of the single lock. */
  waitUntilFree(options?: WaitOptions): Promise<void>
}

/**
 * @param own for a kind of lock with an order and a default wait of its own; its locks are taken as given
 * @throws TypeError for something that is not a lock; RangeError for none, or the same name of the same store twice.
 */
export function all(engine: Engine, locks: readonly Lock[], own?: { readonly wait: number }): MultiLock {
  engine.assertOpen()
  if (!Array.isArray(locks)) throw new TypeError(`all() takes an array of locks, got ${describe(locks)}`)
  if (locks.length === 0) throw new RangeError('all() needs at least one lock, got an empty array')
  const parts = locks.map((lock, index) => {
    if (!(lock instanceof EngineLock)) {
      throw new TypeError(
        `all() takes mutexes, read or write sides and semaphores; item ${index} is ${describe(lock)}`,
      )
    }
    return { lock, index }
  })
  const keyOf = ({ lock }: Part) => `${lock.name}\n${lock.engine.driver.name}`
  if (own === undefined) parts.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0))
  for (const [i, part] of parts.entries()) {
    const next = parts[i + 1]
    if (next !== undefined && next.lock.name === part.lock.name && next.lock.engine === part.lock.engine) {
      throw new RangeError(`all() was given ${quote(part.lock.name)} twice; it would wait for itself`)
    }
  }
  return new Multi(
    engine,
    locks.map((lock) => lock.name).join(' + '),
    parts,
    own?.wait ?? engine.defaults.wait,
  )
}

interface Part {
  readonly lock: EngineLock
  readonly index: number
}

class Multi implements MultiLock {
  readonly name: string
  readonly #engine: Engine
  readonly #parts: readonly Part[]
  /** Unless a call says otherwise. */
  readonly #wait: number

  constructor(engine: Engine, name: string, parts: readonly Part[], wait: number) {
    this.#engine = engine
    this.name = name
    this.#parts = parts
    this.#wait = wait
  }

  async acquire(options: AcquireOptions = {}): Promise<MultiLease> {
    const { clock } = this.#engine
    checkOptions(options)
    const wait = duration('wait', options.wait ?? this.#wait, 0, true)
    const asked = clock.now()
    // If they are not all free at once, wait for them in order.
    const atOnce = await this.#begin(options, wait)
    if (atOnce instanceof CompositeLease) return atOnce
    const held = options.holding ?? []
    return this.#acquireInOrder(async (lock, taken) => {
      const left = Math.max(0, wait - (clock.now() - asked))
      try {
        return await lock.take({ ...options, wait: left, holding: [...[held].flat(), ...taken] })
      } catch (error) {
        const tried = clock.now() - asked
        if (error instanceof BackendError && error.code === 'UNAVAILABLE')
          throw unavailable(
            error.driver,
            lock.name,
            tried,
            error.cause instanceof BackendError ? error.cause : undefined,
          )
        if (!(error instanceof AcquireTimeoutError)) throw error
        throw new AcquireTimeoutError(lock.name, tried, {
          ...(error.holder === undefined ? {} : { holder: error.holder }),
          ...(error.position === undefined ? {} : { position: error.position }),
          ...(error.cause instanceof BackendError ? { error: error.cause } : {}),
        })
      }
    }) as Promise<MultiLease>
  }

  async tryAcquire(options?: TryOptions): Promise<MultiLease | undefined> {
    checkSingle(options)
    const atOnce = await this.#acquireTogether(options ?? {}, 0)
    if (atOnce !== 'one by one') return atOnce
    return this.#acquireInOrder(async (lock) => (await lock.tryAcquire(options)) as HeldLease | undefined)
  }

  async run<R>(fn: (lease: MultiLease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R> {
    checkFunction(fn, 'run')
    const lease = (await this.acquire(options)) as CompositeLease
    const within = lease.held.reduceRight<() => R | PromiseLike<R>>(
      (inner, part) => () => runInside(part, inner),
      () => fn(lease),
    )
    let result: R
    try {
      result = await within()
    } catch (error) {
      await lease.release()
      throw error
    }
    if ((await lease.release()) !== 'lost') return result
    const lost = lease.lostError()
    lost.result = result
    throw lost
  }

  async waitUntilFree(options?: WaitOptions): Promise<void> {
    await (await this.acquire({ ...checkWaitOptions('waitUntilFree()', options), linger: 0 })).release()
  }

  /**
   * First step of a wait: tries all at once, but only where this costs the store nothing that acquiring them in
   * order would not. After a store error they are acquired in order, which waits and reports.
   */
  async #begin(options: AcquireOptions, wait: number): Promise<CompositeLease | undefined | 'one by one'> {
    const quiet = this.#parts.every(({ lock }) => this.#engine.queues.get(lock.name)?.isUncontended !== false)
    if (!quiet) return 'one by one'
    return this.#acquireTogether(options, wait).catch((error: unknown) => {
      if (error instanceof BackendError && error.code !== 'CLOSED') return 'one by one'
      throw error
    })
  }

  /** Acquires all in one step of the store. Undefined: one of them is not free. */
  async #acquireTogether(
    options: AcquireOptions,
    wait: number,
  ): Promise<CompositeLease | undefined | 'one by one'> {
    const { driver } = this.#engine
    const { maxBatch = Number.POSITIVE_INFINITY } = driver.traits
    const some = this.#parts.length > 1 && this.#parts.length <= maxBatch
    const able =
      some && this.#parts.every(({ lock }) => lock.engine === this.#engine && !lock.lingers(options))
    if (!able || driver.acquireMany === undefined) return 'one by one'
    const batch = new ClaimBatch(wait)
    const joining = this.#parts.map(({ lock }) => lock.join(batch, options))
    // By now each has joined, or has been answered within this process.
    if (batch.size === joining.length) batch.send(driver)
    else batch.cancel()
    const answers = await Promise.allSettled(joining)
    const leases = answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : undefined))
    const failed = answers.find((answer) => answer.status === 'rejected')
    if (failed === undefined && batch.answered && !leases.includes(undefined))
      return this.#checkLeases(leases as HeldLease[])
    for (const lease of leases.toReversed()) await lease?.release()
    if (failed !== undefined) throw failed.reason
    // Cancelled, because one is in use in this process; or because one is entered again, which needs no request to
    // the store.
    const entered = leases.filter((lease) => lease !== undefined).length
    if (batch.answered) return wait === 0 && (await this.#mayOnlyBeCached(batch)) ? 'one by one' : undefined
    return batch.size + entered < joining.length ? undefined : 'one by one'
  }

  /** Was one refused by a hold that may only be cached? It gives way to a waiter, but a request for several locks never queues. */
  async #mayOnlyBeCached({ refusedBy }: ClaimBatch): Promise<boolean> {
    const { driver } = this.#engine
    if (driver.traits.caching !== true) return false
    if (refusedBy !== undefined)
      return refusedBy.holder !== undefined && mayBeCached(refusedBy.holder.attempt)
    const asked = this.#parts.map(({ lock }) => driver.inspect(lock.name))
    const seen = await Promise.all(asked).catch(() => [])
    return seen.some(({ holders }) => holders.some(({ attempt }) => mayBeCached(attempt)))
  }

  async #acquireInOrder(
    take: (lock: EngineLock, taken: readonly HeldLease[]) => Promise<HeldLease | undefined>,
  ): Promise<CompositeLease | undefined> {
    const taken: HeldLease[] = []
    const undo = async () => {
      for (const lease of taken.toReversed()) await lease.release()
    }
    for (const { lock } of this.#parts) {
      let lease: HeldLease | undefined
      try {
        lease = await take(lock, taken)
      } catch (error) {
        await undo()
        throw error
      }
      if (lease === undefined) {
        await undo()
        return undefined
      }
      taken.push(lease)
    }
    return this.#checkLeases(taken)
  }

  /** @param leases in the order of the parts */
  async #checkLeases(leases: readonly HeldLease[]): Promise<CompositeLease> {
    const given = this.#parts.map(({ index }, i) => ({ index: index, lease: leases[i] as HeldLease }))
    const together = new CompositeLease(
      this.name,
      given.sort((a, b) => a.index - b.index).map(({ lease }) => lease),
    )
    if (together.state === 'lost') {
      // The first one may have expired during the wait for the last one.
      const lost = together.lostError()
      await together.release()
      throw lost
    }
    return together
  }
}
