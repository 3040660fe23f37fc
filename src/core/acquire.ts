/**
 * The path of every acquisition: options → already held here? → local queue → driver → lease. `locks/` chooses the
 * mode for each kind of lock; everything else is the same for all and is in this file.
 *
 * Long because the ways in which one acquisition ends are read together.
 */

import type { ClaimBatch } from './claim-batch.js'
import { watchForDeadlock } from './deadlock.js'
import type { WaitStatus } from './driver.js'
import type { Engine } from './engine.js'
import {
  AcquireTimeoutError,
  aged,
  BackendError,
  DeadlockError,
  LeaseLostError,
  TooManyWaitersError,
  UnsupportedError,
  unavailable,
} from './errors.js'
import type { AboutAcquisition, DenialReason } from './events.js'
import type { Hold } from './hold.js'
import { HeldLease, type Lease } from './lease.js'
import type { LocalQueue, QueueEntry } from './local-queue.js'
import type { Mode, ModeKind } from './mode.js'
import { checkFunction } from './name.js'
import { onAbort } from './on-abort.js'
import { type AcquireOptions, checkSingle, resolveTerms, type Terms, type TryOptions } from './options.js'
import { heldBy, holdsOfContext, reenter, runInside } from './reentrancy.js'
import { WaitDeadline, type WaitListener, type WaitOutcome } from './wait-deadline.js'
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

/** Callbacks of one acquisition: progress and result. */
interface Caller {
  /** `undefined`: not granted. `why` makes the error for a caller that throws one. */
  resolve(lease: HeldLease | undefined, why: () => Error | Promise<Error>): void
  reject(error: unknown): void
  /** The batch that its claim joins. */
  readonly party?: ClaimBatch
  /** Called whenever the store reports what blocks the claim. */
  blocked?(by: WaitStatus): void
}

let acquisitions = 0

/** A report on the holder that is less than this many ms old goes into the error without another query. */
const freshFor = 250
/** Longest time that a single attempt waits for the store's reply, in ms: a frozen store is an error, not "not free". */
const longestAttempt = 10_000

export class EngineLock implements Lock {
  readonly engine: Engine
  readonly name: string
  readonly kind: ModeKind
  readonly #modeOf: (terms: Terms) => Mode
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
    this.#modeOf = modeOf
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
    // Made here and not in the timer that ended the wait, the error has the caller in its stack.
    if (typeof taken === 'function') throw restacked(await taken())
    return taken
  }

  tryAcquire(options?: TryOptions): Promise<HeldLease | undefined> {
    return new Promise((resolve, reject) => {
      checkSingle(options)
      this.#ask(options, true, { resolve, reject })
    })
  }

  /**
   * One attempt whose claim joins `party`. It cannot join when the lock is busy or held in this process, or the
   * request is refused; `party.size` is then too small.
   */
  join(party: ClaimBatch, options: AcquireOptions): Promise<HeldLease | undefined> {
    return new Promise((resolve, reject) => this.#ask(options, true, { resolve, reject, party }))
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
    const taking = this.take({ ...given, reentrant }).catch((error: unknown) => {
      if (!own || !(error instanceof DeadlockError)) throw error
      const what = 'this async context holds it itself; call waitUntilFree() after it was released'
      throw new DeadlockError(this.name, what)
    })
    await (await taking).release()
  }

  /** Throws what is wrong with the request; every later error goes to `reject`. `single`: one attempt, as with `wait: 0`. */
  #ask(options: AcquireOptions | undefined, single: true | undefined, caller: Caller): void {
    const { engine, name } = this
    engine.assertOpen()
    const terms =
      options === undefined
        ? this.#defaults
        : resolveTerms(engine.driver.name, engine.traits, this.#defaults, options)
    const once = single ?? terms.wait === 0
    const mode = this.#modeOf(terms)
    terms.signal?.throwIfAborted()
    const nested = reenter(engine, name, mode, terms, once)
    if (nested === undefined) return this.#stand(terms, mode, once, caller)
    if (terms.leakWarning) engine.leaks?.watch(nested, engine.leaks.stack())
    caller.resolve(nested, () => new AcquireTimeoutError(name, 0, undefined))
  }

  #stand(terms: Terms, mode: Mode, once: boolean, caller: Caller): void {
    const line = this.engine.line(this.name)
    if (!once && line.isFull(terms.maxPending)) throw this.#tooMany(terms, mode)
    const holds = once && caller.party?.waits !== true ? [] : heldBy(this.engine, terms.holding)
    const acquisition = new Acquisition(line, terms, mode, once, caller)
    if (holds.length > 0) this.#inside(holds, mode, acquisition, once)
    line.enqueue(acquisition, once)
  }

  #tooMany({ maxPending, note }: Terms, mode: Mode): TooManyWaitersError {
    const { engine, name } = this
    const error = new TooManyWaitersError(name, maxPending)
    const about = { name, driver: engine.driver.name, mode, note, acquisition: ++acquisitions }
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
    acquisition.watched = watchForDeadlock(engine, name, holds, (error) => acquisition.breakOff(error))
  }
}

/** One call of `acquire`, until it settles. */
class Acquisition implements QueueEntry, WaitListener {
  readonly terms: Terms
  readonly mode: Mode
  readonly asked: number
  readonly acquisition: number = ++acquisitions
  readonly deadline: WaitDeadline
  readonly party: ClaimBatch | undefined
  /** Stops the watch for deadlocks. */
  watched: (() => void) | undefined
  readonly #line: LocalQueue
  readonly #once: boolean
  readonly #caller: Caller
  /** The store's last report on who holds the lock, and the clock reading then. */
  #said: { readonly by: WaitStatus; readonly at: number } | undefined
  #trouble: BackendError | undefined
  /** Of the call, where leaks are looked for. */
  readonly #stack: string | undefined

  constructor(line: LocalQueue, terms: Terms, mode: Mode, once: boolean, caller: Caller) {
    const { clock, lazyTimers } = line.engine
    this.#line = line
    this.#once = once
    this.#caller = caller
    this.terms = terms
    this.mode = mode
    this.party = caller.party
    this.asked = clock.now()
    this.#stack = terms.leakWarning ? line.engine.leaks?.stack() : undefined
    const patience = once
      ? Math.min(terms.ttl, longestAttempt, caller.party?.longest ?? longestAttempt)
      : terms.wait
    this.deadline = new WaitDeadline(clock, lazyTimers, this.asked + patience, terms.signal, this)
    const { events } = line.engine
    if (events.wants('requested')) events.emit('requested', this.#about())
  }

  granted(hold: Hold | undefined): void {
    this.watched?.()
    if (hold === undefined) this.#denied('busy')
    const lease = hold && new HeldLease(hold, this.mode.kind)
    if (lease !== undefined && this.#stack !== undefined) this.#line.engine.leaks?.watch(lease, this.#stack)
    this.#caller.resolve(lease, () => this.#asOfNow(this.#notFree(0), 'busy'))
  }

  failed(error: unknown): void {
    this.watched?.()
    const silent = error instanceof BackendError && error.code === 'BACKEND' && error.unanswered
    const why = silent ? this.#unavailable(error) : error
    this.#denied('failed', why)
    this.#caller.reject(why)
  }

  blocked(by: WaitStatus): void {
    this.#trouble = by.error
    if (by.error === undefined) this.#said = { by, at: this.#line.engine.clock.now() }
    this.#caller.blocked?.(by)
  }

  /** Ends a wait that would never be granted. */
  breakOff(error: unknown): void {
    if (this.deadline.isOver) return
    this.deadline.done()
    this.#line.cancel(this)
    this.failed(error)
  }

  waitEnded(how: WaitOutcome): void {
    const why = this.#why(how)
    this.watched?.()
    this.#line.cancel(this)
    if (how === 'deadline' && !this.#once) return void this.#timedOut(why as Error)
    this.#denied(how === 'aborted' ? 'aborted' : 'failed', why)
    this.#caller.reject(why)
  }

  async #timedOut(why: Error): Promise<void> {
    let error: Error
    try {
      error = await this.#asOfNow(why)
    } catch (reason) {
      this.#denied('aborted', reason)
      return this.#caller.reject(reason)
    }
    this.#denied(error instanceof AcquireTimeoutError ? 'timeout' : 'failed', error)
    this.#caller.resolve(undefined, () => error)
  }

  /** The fields of every event about this acquisition. */
  #about(): AboutAcquisition {
    const { engine, name } = this.#line
    const { mode, acquisition } = this
    return { name, driver: engine.driver.name, mode, note: this.terms.note, acquisition }
  }

  #denied(why: DenialReason, error?: unknown): void {
    const { events, driver, clock } = this.#line.engine
    if (error instanceof BackendError && error.code !== 'CLOSED')
      events.storeFailed(driver.name, this.#line.name, 'acquire', error)
    if (!events.wants('denied')) return
    const waited = clock.now() - this.asked
    events.emit('denied', { ...this.#about(), waited, why, ...(error !== undefined && { error }) })
  }

  #why(how: WaitOutcome): unknown {
    const { engine } = this.#line
    if (how === 'aborted') return this.terms.signal?.reason
    if (how === 'closed') return engine.closedError()
    if (this.#once) return this.#unavailable(this.#trouble)
    // A waiter behind others of this process knows what the store reported to the first of them.
    this.#said ??= this.#line.lastStatus
    const waited = engine.clock.now() - this.asked
    const held = this.#line.localHolder() !== undefined || this.#said !== undefined
    return held ? this.#notFree(waited) : this.#unavailable(this.#trouble ?? this.#line.trouble)
  }

  /**
   * Looks up who holds the lock at the end of the wait: others may have held it since the store's last report, if
   * there was one, and a store that has died since is not a busy lock.
   * @param just the store's answer right now, where a single attempt asked
   * @throws `signal.reason` when aborted meanwhile
   */
  async #asOfNow(why: Error, just?: 'busy'): Promise<Error> {
    const { clock } = this.#line.engine
    const said = this.#said
    const isFresh = said?.by.holder !== undefined && clock.now() - said.at < freshFor
    if (!(why instanceof AcquireTimeoutError) || isFresh || this.#line.localHolder() !== undefined) return why
    const { answered, holder, error } = await this.#unlessAborted(this.#line.lastLook())
    if (!answered && just === undefined) return this.#unavailable(error ?? this.#trouble)
    return holder === undefined ? why : new AcquireTimeoutError(why.lock, why.waited, { ...said?.by, holder })
  }

  /** @param look never rejects */
  #unlessAborted<T>(look: Promise<T>): Promise<T> {
    const { signal } = this.terms
    if (signal === undefined) return look
    return new Promise((resolve, reject) => {
      const off = onAbort(signal, () => reject(signal.reason))
      void look.then((seen) => {
        off()
        resolve(seen)
      })
    })
  }

  #unavailable(trouble: BackendError | undefined): BackendError {
    const { engine, name } = this.#line
    return unavailable(engine.driver.name, name, engine.clock.now() - this.asked, trouble)
  }

  #notFree(waited: number): AcquireTimeoutError {
    const { engine, name } = this.#line
    const said = this.#said
    const told = said?.by.holder && aged(said.by.holder, engine.clock.now() - said.at)
    // Of a hold in this process the present state is known.
    const holder = this.#line.localHolder() ?? told
    return new AcquireTimeoutError(name, waited, {
      ...said?.by,
      ...(holder !== undefined && { holder }),
      ...(this.#trouble !== undefined && { error: this.#trouble }),
    })
  }
}

/** Replaces the stack with that of the awaiting caller. */
function restacked(error: Error): Error {
  Error.captureStackTrace(error, restacked)
  return error
}
