/**
 * The path of every acquisition: options → already held here? → the line of this process → the driver → a lease.
 * `locks/` says which mode each kind of lock asks for; everything else is the same and stands here.
 *
 * Long because the ways in which one acquisition ends are read together.
 */
import { watchForDeadlock } from './deadlock.js'
import type { Blocked } from './driver.js'
import type { Engine } from './engine.js'
import { AcquireTimeoutError, BackendError, LeaseLostError, UnsupportedError } from './errors.js'
import type { Hold } from './hold.js'
import { HeldLease, type Lease } from './lease.js'
import type { Mode, ModeKind } from './mode.js'
import { checkFunction, quote } from './name.js'
import { type AcquireOptions, checkOptions, resolveTerms, type Terms, type TryOptions } from './options.js'
import type { Line, Request } from './queue.js'
import { heldBy, inside, reenter } from './reentrancy.js'
import type { Party } from './together.js'
import { Patience, type WaitEnd, type Waiting } from './wait.js'

/** The object one acquires from. Cheap, holds nothing; make as many as you like. */
export interface Lock {
  readonly name: string
  /**
   * Waits for the lock.
   * @throws AcquireTimeoutError when it was not free within `wait`; `signal.reason` when aborted; DeadlockError when this
   * async context holds it already; BackendError when the store cannot be used; TypeError, RangeError for bad options.
   */
  acquire(options?: AcquireOptions): Promise<Lease>
  /** One attempt: `undefined` when it is not free now. @throws as `acquire`, but never AcquireTimeoutError or DeadlockError. */
  tryAcquire(options?: TryOptions): Promise<Lease | undefined>
  /**
   * Acquires, runs `fn`, releases, and resolves with what `fn` returned.
   * @throws LeaseLostError with `result` when `fn` succeeded but the lease was lost before it ended; else as `acquire` and `fn`.
   */
  run<R>(fn: (lease: Lease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R>
}

/** Where the end of one acquisition goes, and what comes before it. */
interface Caller {
  resolve(lease: HeldLease | undefined): void
  reject(error: unknown): void
  /** Its claim joins others. */
  readonly party?: Party
  /** Told whenever the store says what stands in the way. */
  blocked?(by: Blocked): void
}

/** A single attempt waits for the store's answer no longer than this, in ms: a frozen store is an error, not "not free". */
const longestAttempt = 10_000

export class EngineLock implements Lock {
  readonly engine: Engine
  readonly name: string
  readonly kind: ModeKind
  readonly #modeOf: (terms: Terms) => Mode

  /** @throws UnsupportedError when the driver does not know the mode */
  constructor(engine: Engine, name: string, kind: ModeKind, modeOf: (terms: Terms) => Mode) {
    engine.assertOpen()
    const { driver } = engine
    if (!driver.traits.modes.includes(kind)) {
      throw new UnsupportedError(driver.name, `${kind} mode`, `it can do: ${driver.traits.modes.join(', ')}`)
    }
    this.engine = engine
    this.name = name
    this.kind = kind
    this.#modeOf = modeOf
  }

  acquire(options?: AcquireOptions): Promise<Lease> {
    return this.take(options)
  }

  /** As `acquire`, with the class that other parts of the core need. `blocked` hears what stands in the way. */
  take(options?: AcquireOptions, blocked?: (by: Blocked) => void): Promise<HeldLease> {
    return new Promise((resolve, reject) => {
      const notFree = () => reject(new AcquireTimeoutError(this.name, 0, undefined))
      this.#ask(options, options?.wait === 0, {
        resolve: (lease) => (lease === undefined ? notFree() : resolve(lease)),
        reject,
        ...(blocked !== undefined && { blocked }),
      })
    })
  }

  tryAcquire(options?: TryOptions): Promise<HeldLease | undefined> {
    return new Promise((resolve, reject) => {
      checkOptions(options)
      if (options !== undefined && 'wait' in options) {
        throw new TypeError('tryAcquire makes one attempt and takes no wait; use acquire({ wait })')
      }
      this.#ask(options, true, { resolve, reject })
    })
  }

  /** One attempt whose claim joins `party`, if it can: else the party is smaller than it should be. */
  join(party: Party, options: AcquireOptions): Promise<HeldLease | undefined> {
    return new Promise((resolve, reject) => this.#ask(options, true, { resolve, reject, party }))
  }

  async run<R>(fn: (lease: Lease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R> {
    checkFunction(fn, 'run')
    const lease = await this.take(options)
    let result: R
    try {
      result = await inside(lease, () => fn(lease))
    } catch (error) {
      await lease.release()
      throw error
    }
    if ((await lease.release()) !== 'lost') return result
    const lost = lease.hold.lost ?? new LeaseLostError(this.name, lease.token, 'taken')
    lost.result = result
    throw lost
  }

  /** Throws what is wrong with the request; everything later goes to `reject`. */
  #ask(options: AcquireOptions | undefined, once: boolean, caller: Caller): void {
    const { engine, name } = this
    engine.assertOpen()
    const terms =
      options === undefined
        ? engine.defaults
        : resolveTerms(engine.driver.name, engine.traits, engine.defaults, options)
    const mode = this.#modeOf(terms)
    terms.signal?.throwIfAborted()
    const nested = reenter(engine, name, mode, terms, once)
    if (nested === undefined) this.#stand(terms, mode, once, caller)
    else caller.resolve(nested)
  }

  #stand(terms: Terms, mode: Mode, once: boolean, caller: Caller): void {
    const line = this.engine.line(this.name)
    const holds = once && caller.party?.waits !== true ? [] : heldBy(this.engine, terms.holding)
    const acquisition = new Acquisition(line, terms, mode, once, caller)
    if (holds.length > 0) this.#inside(holds, mode, acquisition, once)
    line.ask(acquisition, once)
  }

  /** Waits while it holds: in what order, and may it wait for ever? */
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

/** One call of `acquire`, until it is settled one way or the other. */
class Acquisition implements Request, Waiting {
  readonly terms: Terms
  readonly mode: Mode
  readonly asked: number
  readonly patience: Patience
  readonly party: Party | undefined
  /** Ends the watch for deadlocks. */
  watched: (() => void) | undefined
  readonly #line: Line
  readonly #once: boolean
  readonly #caller: Caller

  constructor(line: Line, terms: Terms, mode: Mode, once: boolean, caller: Caller) {
    const { clock, unarmed } = line.engine
    this.#line = line
    this.#once = once
    this.#caller = caller
    this.terms = terms
    this.mode = mode
    this.party = caller.party
    this.asked = clock.now()
    const patience = once
      ? Math.min(terms.ttl, longestAttempt, caller.party?.longest ?? longestAttempt)
      : terms.wait
    this.patience = new Patience(clock, unarmed, this.asked + patience, terms.signal, this)
  }

  granted(hold: Hold | undefined): void {
    this.watched?.()
    this.#caller.resolve(hold && new HeldLease(hold, this.mode.kind))
  }

  failed(error: unknown): void {
    this.watched?.()
    this.#caller.reject(error)
  }

  blocked(by: Blocked): void {
    this.patience.blocked = by
    this.#caller.blocked?.(by)
  }

  /** It would never be granted. */
  breakOff(error: unknown): void {
    if (this.patience.isOver) return
    this.patience.done()
    this.#line.leave(this)
    this.failed(error)
  }

  waitEnded(how: WaitEnd): void {
    const why = this.#why(how)
    this.watched?.()
    this.#line.leave(this)
    this.#caller.reject(why)
  }

  #why(how: WaitEnd): unknown {
    const { engine, name } = this.#line
    if (how === 'aborted') return this.terms.signal?.reason
    if (how === 'closed') return engine.closedError()
    const waited = engine.clock.now() - this.asked
    if (this.#once)
      return new BackendError(
        engine.driver.name,
        `gave no answer about ${quote(name)} within ${Math.round(waited)} ms`,
      )
    const { blocked } = this.patience
    const holder = blocked?.holder ?? this.#line.localHolder()
    return new AcquireTimeoutError(name, waited, holder === undefined ? blocked : { ...blocked, holder })
  }
}
