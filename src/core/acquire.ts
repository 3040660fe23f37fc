/**
 * The path of every acquisition: options → already held here? → local queue → driver → lease. `locks/` chooses the
 * mode for each kind of lock; everything else is common to all. How one call ends is in `acquisition.ts`.
 *
 * Long because the public contract of a lock stands beside its one implementation.
 */

import { Acquisition, type Callbacks, nextAcquisition } from './acquisition.js'
import type { ClaimBatch } from './claim-batch.js'
import { watchForDeadlock } from './deadlock.js'
import type { WaitStatus } from './driver.js'
import type { Engine } from './engine.js'
import {
  AcquireTimeoutError,
  DeadlockError,
  LeaseLostError,
  TooManyWaitersError,
  UnsupportedError,
} from './errors.js'
import type { Hold } from './hold.js'
import type { HeldLease, Lease } from './lease.js'
import type { Mode, ModeKind } from './mode.js'
import { checkFunction } from './name.js'
import { type AcquireOptions, checkSingle, resolveTerms, type Terms, type TryOptions } from './options.js'
import { heldBy, holdsOfContext, reenter, runInside } from './reentrancy.js'
import { checkWaitOptions, type WaitOptions } from './with-deadline.js'

/** The object to acquire from. Cheap, holds nothing; make as many as you like. */
export interface Lock {
  readonly name: string
  /**
   * Waits for the lock.
   * @throws AcquireTimeoutError when, as the store reported, somebody else held the lock to the end of `wait`;
   * `signal.reason` when aborted; DeadlockError when this async context already holds it; BackendError when the store
   * cannot be used, with code `UNAVAILABLE` when it did not reply within `wait`; TooManyWaitersError when
   * `maxPending` others wait in this process; TypeError, RangeError for bad options.
   */
  acquire(options?: AcquireOptions): Promise<Lease>
  /**
   * One attempt: `undefined` when the lock is not free now. @throws as `acquire`, but never AcquireTimeoutError,
   * TooManyWaitersError or DeadlockError.
   */
  tryAcquire(options?: TryOptions): Promise<Lease | undefined>
  /**
   * Acquires, runs `fn`, releases, and resolves with the result of `fn`.
   * @throws LeaseLostError with `result` when `fn` succeeded but the lease was lost before it ended; else as
   * `acquire` and `fn`.
   */
  run<R>(fn: (lease: Lease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R>
  /**
   * Resolves once the lock could have been acquired, and holds nothing then: a mutex or a write side when nobody held
   * it, a read side when nobody wrote, a semaphore when one permit was free. Somebody else may hold it again by the
   * time you look.
   *
   * It queues as `acquire` does, is granted the lock and releases it at once. So it costs as much as an acquisition,
   * earlier waiters are served first, others find the lock taken for a moment, and a process that crashes in that
   * moment keeps the lock until its `ttl` has passed.
   * @throws AcquireTimeoutError when it was not free within `wait`; as `acquire`
   */
  waitUntilFree(options?: WaitOptions): Promise<void>
}

export class EngineLock implements Lock {
  readonly engine: Engine
  readonly name: string
  readonly kind: ModeKind
  readonly #toMode: (terms: Terms) => Mode
  readonly #defaults: Terms

  /** @throws UnsupportedError when the driver does not support the mode */
  constructor(
    engine: Engine,
    name: string,
    kind: ModeKind,
    modeOf: (terms: Terms) => Mode,
    defaults: Terms = engine.defaults,
  ) {
    engine.assertOpen()
    const { driver } = engine
    if (!driver.traits.modes.includes(kind)) {
      throw new UnsupportedError(driver.name, `${kind} mode`, `it can do: ${driver.traits.modes.join(', ')}`)
    }
    this.engine = engine
    this.name = name
    this.kind = kind
    this.#toMode = modeOf
    this.#defaults = defaults
  }

  acquire(options?: AcquireOptions): Promise<Lease> {
    return this.take(options)
  }

  /** As `acquire`, with the class that other parts of the core need. `blocked` receives what blocks the claim. */
  async take(options?: AcquireOptions, blocked?: (by: WaitStatus) => void): Promise<HeldLease> {
    const taken = await new Promise<HeldLease | (() => Error | Promise<Error>)>((resolve, reject) =>
      this.#ask(options, undefined, {
        resolve: (lease, why) => resolve(lease ?? why),
        reject,
        ...(blocked !== undefined && { blocked }),
      }),
    )
    // Created here and not in the timer that ended the wait, so that its stack shows the caller.
    if (typeof taken === 'function') throw withCallerStack(await taken())
    return taken
  }

  tryAcquire(options?: TryOptions): Promise<HeldLease | undefined> {
    return new Promise((resolve, reject) => {
      checkSingle(options)
      this.#ask(options, true, { resolve, reject })
    })
  }

  /**
   * One attempt whose claim joins `batch`. It cannot join when the lock is busy or held in this process, or the
   * request is refused; `batch.size` is then too small.
   */
  join(batch: ClaimBatch, options: AcquireOptions): Promise<HeldLease | undefined> {
    return new Promise((resolve, reject) => this.#ask(options, true, { resolve, reject, batch }))
  }

  async run<R>(fn: (lease: Lease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R> {
    checkFunction(fn, 'run')
    const lease = await this.take(options)
    let result: R
    try {
      result = await runInside(lease, () => fn(lease))
    } catch (error) {
      await lease.release()
      throw error
    }
    if ((await lease.release()) !== 'lost') return result
    const lost = lease.hold.lost ?? new LeaseLostError(this.name, lease.token, 'taken')
    lost.result = result
    throw lost
  }

  async waitUntilFree(options?: WaitOptions): Promise<void> {
    const given = checkWaitOptions('waitUntilFree()', options)
    // A shared hold of this context keeps no reader out.
    const reentrant = this.kind === 'shared'
    const own = this.kind === 'exclusive' && holdsOfContext(this.engine, this.name).length > 0
    const taking = this.take({ ...given, reentrant, linger: 0 }).catch((error: unknown) => {
      if (!own || !(error instanceof DeadlockError)) throw error
      const what = 'this async context holds it itself; call waitUntilFree() after it was released'
      throw new DeadlockError(this.name, what)
    })
    await (await taking).release()
  }

  /** May a process keep this lock cached? Then several are not taken in one step, which such a cache would refuse. */
  lingers(options: AcquireOptions): boolean {
    const linger = options.linger ?? this.#defaults.linger
    return linger !== 0 || this.engine.queues.get(this.name)?.cache?.hold !== undefined
  }

  /** Throws for an invalid request; every later error goes to `reject`. `single`: one attempt, as with `wait: 0`. */
  #ask(options: AcquireOptions | undefined, single: true | undefined, caller: Callbacks): void {
    const { engine, name } = this
    engine.assertOpen()
    const terms =
      options === undefined
        ? this.#defaults
        : resolveTerms(engine.driver.name, engine.traits, this.#defaults, options)
    const once = single ?? terms.wait === 0
    const mode = this.#toMode(terms)
    terms.signal?.throwIfAborted()
    const nested = reenter(engine, name, mode, terms, once)
    if (nested === undefined) return this.#enqueue(terms, mode, once, caller)
    if (terms.leakWarning) engine.leaks?.watch(nested, engine.leaks.stack())
    caller.resolve(nested, () => new AcquireTimeoutError(name, 0, undefined))
  }

  #enqueue(terms: Terms, mode: Mode, once: boolean, caller: Callbacks): void {
    const queue = this.engine.queue(this.name)
    if (!once && queue.isFull(terms.maxPending)) throw this.#tooManyWaiters(terms, mode)
    const holds = once && caller.batch?.waits !== true ? [] : heldBy(this.engine, terms.holding)
    const acquisition = new Acquisition(queue, terms, mode, once, caller)
    if (holds.length > 0) this.#inside(holds, mode, acquisition, once)
    queue.enqueue(acquisition, once)
  }

  #tooManyWaiters({ maxPending, note }: Terms, mode: Mode): TooManyWaitersError {
    const { engine, name } = this
    const error = new TooManyWaitersError(name, maxPending)
    const about = { name, driver: engine.driver.name, mode, note, acquisition: nextAcquisition() }
    if (engine.events.wants('requested')) engine.events.emit('requested', about)
    if (engine.events.wants('denied'))
      engine.events.emit('denied', { ...about, waited: 0, why: 'failed', error })
    return error
  }

  /** For a wait inside other holds: records the lock order and watches for deadlocks. */
  #inside(holds: readonly Hold[], mode: Mode, acquisition: Acquisition, once: boolean): void {
    const { engine, name } = this
    if (mode.kind === 'permits') return
    const held = holds.filter((hold) => hold.mode.kind !== 'permits').map((hold) => hold.name)
    const orders = engine.order.note(held, name)
    if (orders !== undefined)
      engine.events.emit('order', { name, driver: engine.driver.name, mode, note: undefined, orders })
    if (once || engine.driver.cells === undefined) return
    acquisition.watched = watchForDeadlock(engine, name, holds, (error) => acquisition.abort(error))
  }
}

/** Replaces the stack with that of the awaiting caller. */
function withCallerStack(error: Error): Error {
  Error.captureStackTrace(error, withCallerStack)
  return error
}
