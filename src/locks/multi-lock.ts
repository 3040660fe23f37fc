/**
 * Several locks as one: all or nothing.
 *
 * They are taken one after the other in one canonical order, whatever order they were given in, so two callers who want
 * the same locks cannot wait for each other in a ring. They may be of different stores: then names come first, and drivers
 * second; the same name in two stores of one kind is taken in the order given. `wait` bounds the whole. When one cannot be had, those already
 * taken are given back in reverse order before the caller hears of it.
 */
import { EngineLock, type Lock } from '../core/acquire.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError, BackendError } from '../core/errors.js'
import type { HeldLease } from '../core/lease.js'
import { describe, quote } from '../core/name.js'
import type { AcquireOptions, TryOptions } from '../core/options.js'
import { inside } from '../core/reentrancy.js'
import { HeldTogether, type MultiLease } from './multi-lease.js'

export interface MultiLock extends Lock {
  acquire(options?: AcquireOptions): Promise<MultiLease>
  tryAcquire(options?: TryOptions): Promise<MultiLease | undefined>
  run<R>(fn: (lease: MultiLease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R>
}

/**
 * @param order `inThisOrder`: taken as given, by a kind of lock that has one order of its own
 * @throws TypeError for something that is not a lock; RangeError for none, or the same name of the same store twice.
 */
export function all(
  engine: Engine,
  locks: readonly Lock[],
  order?: { readonly inThisOrder: true },
): MultiLock {
  engine.assertOpen()
  if (!Array.isArray(locks)) throw new TypeError(`all() takes an array of locks, got ${describe(locks)}`)
  if (locks.length === 0) throw new RangeError('all() needs at least one lock, got an empty array')
  const parts = locks.map((lock, place) => {
    if (!(lock instanceof EngineLock)) {
      throw new TypeError(
        `all() takes mutexes, read or write sides and semaphores; item ${place} is ${describe(lock)}`,
      )
    }
    return { lock, place }
  })
  const keyOf = ({ lock }: Part) => `${lock.name}\n${lock.engine.driver.name}`
  if (order === undefined) parts.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : keyOf(a) > keyOf(b) ? 1 : 0))
  for (const [i, part] of parts.entries()) {
    const next = parts[i + 1]
    if (next !== undefined && next.lock.name === part.lock.name && next.lock.engine === part.lock.engine) {
      throw new RangeError(`all() was given ${quote(part.lock.name)} twice; it would wait for itself`)
    }
  }
  return new Multi(engine, locks.map((lock) => lock.name).join(' + '), parts)
}

interface Part {
  readonly lock: EngineLock
  readonly place: number
}

class Multi implements MultiLock {
  readonly name: string
  readonly #engine: Engine
  readonly #parts: readonly Part[]

  constructor(engine: Engine, name: string, parts: readonly Part[]) {
    this.#engine = engine
    this.name = name
    this.#parts = parts
  }

  async acquire(options: AcquireOptions = {}): Promise<MultiLease> {
    const { clock, defaults } = this.#engine
    const wait = options.wait ?? defaults.wait
    const asked = clock.now()
    return this.#takeAll(async (lock) => {
      const left = Math.max(0, wait - (clock.now() - asked))
      try {
        return await lock.take({ ...options, wait: left })
      } catch (error) {
        if (!(error instanceof AcquireTimeoutError)) throw error
        throw new AcquireTimeoutError(lock.name, clock.now() - asked, {
          ...(error.holder === undefined ? {} : { holder: error.holder }),
          ...(error.position === undefined ? {} : { position: error.position }),
          ...(error.cause instanceof BackendError ? { trouble: error.cause } : {}),
        })
      }
    }) as Promise<MultiLease>
  }

  tryAcquire(options?: TryOptions): Promise<MultiLease | undefined> {
    return this.#takeAll(async (lock) => (await lock.tryAcquire(options)) as HeldLease | undefined)
  }

  async run<R>(fn: (lease: MultiLease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R> {
    const lease = (await this.acquire(options)) as HeldTogether
    const within = lease.held.reduceRight<() => R | PromiseLike<R>>(
      (inner, part) => () => inside(part, inner),
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

  async #takeAll(
    take: (lock: EngineLock) => Promise<HeldLease | undefined>,
  ): Promise<HeldTogether | undefined> {
    const taken: { lease: HeldLease; place: number }[] = []
    const undo = async () => {
      for (const { lease } of taken.toReversed()) await lease.release()
    }
    for (const { lock, place } of this.#parts) {
      let lease: HeldLease | undefined
      try {
        lease = await take(lock)
      } catch (error) {
        await undo()
        throw error
      }
      if (lease === undefined) {
        await undo()
        return undefined
      }
      taken.push({ lease, place })
    }
    const together = new HeldTogether(
      this.name,
      taken.sort((a, b) => a.place - b.place).map(({ lease }) => lease),
    )
    if (together.state === 'lost') {
      // The first one may have run out while the last one was waited for.
      const lost = together.lostError()
      await together.release()
      throw lost
    }
    return together
  }
}
