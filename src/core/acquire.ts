/**
 * The path of every acquisition: options → already held here? → the line of this process → the driver → a lease.
 * `locks/` says which mode each kind of lock asks for; everything else is the same and stands here.
 */
import type { Engine } from './engine.js'
import { AcquireTimeoutError, BackendError, LeaseLostError, UnsupportedError } from './errors.js'
import type { Hold } from './hold.js'
import { HeldLease, type Lease } from './lease.js'
import type { Mode, ModeKind } from './mode.js'
import { type AcquireOptions, resolveTerms, type Terms, type TryOptions } from './options.js'
import type { Request } from './queue.js'
import { inside, reenter } from './reentrancy.js'
import { Patience, type WaitEnd } from './wait.js'

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

  async tryAcquire(options?: TryOptions): Promise<Lease | undefined> {
    if (options !== undefined && 'wait' in options) {
      throw new TypeError('tryAcquire makes one attempt and takes no wait; use acquire({ wait })')
    }
    return this.#ask(options, true)
  }

  async run<R>(fn: (lease: Lease) => R | PromiseLike<R>, options?: AcquireOptions): Promise<R> {
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

  /** As `acquire`, with the class that other parts of the core need. */
  async take(options?: AcquireOptions): Promise<HeldLease> {
    const lease = await this.#ask(options, options?.wait === 0)
    if (lease !== undefined) return lease
    throw new AcquireTimeoutError(this.name, 0, undefined)
  }

  #ask(options: AcquireOptions | undefined, once: boolean): Promise<HeldLease | undefined> {
    const { engine } = this
    engine.assertOpen()
    const terms =
      options === undefined
        ? engine.defaults
        : resolveTerms(engine.driver.name, engine.traits, engine.defaults, options)
    const mode = this.#modeOf(terms)
    terms.signal?.throwIfAborted()
    const nested = reenter(engine, this.name, mode, terms.reentrant, once)
    if (nested !== undefined) return Promise.resolve(nested)
    return new Promise((resolve, reject) => this.#stand(terms, mode, once, resolve, reject))
  }

  #stand(
    terms: Terms,
    mode: Mode,
    once: boolean,
    resolve: (lease: HeldLease | undefined) => void,
    reject: (error: unknown) => void,
  ): void {
    const { engine, name } = this
    const asked = engine.clock.now()
    const line = engine.line(name)
    const ended = (how: WaitEnd) => {
      const why = this.#whyEnded(how, request, once)
      line.leave(request)
      reject(why)
    }
    const deadline = asked + (once ? Math.min(terms.ttl, longestAttempt) : terms.wait)
    const request: Request = {
      mode,
      terms,
      asked,
      patience: new Patience(engine.clock, engine.unarmed, deadline, terms.signal, ended),
      granted: (hold: Hold | undefined) => resolve(hold && new HeldLease(hold, mode.kind)),
      failed: reject,
    }
    line.ask(request, once)
  }

  #whyEnded(how: WaitEnd, { patience, terms, asked }: Request, once: boolean): unknown {
    const { engine, name } = this
    if (how === 'aborted') return terms.signal?.reason
    if (how === 'closed') return engine.closedError()
    const waited = engine.clock.now() - asked
    if (once)
      return new BackendError(
        engine.driver.name,
        `gave no answer about ${name} within ${Math.round(waited)} ms`,
      )
    const holder = patience.blocked?.holder ?? engine.lines.get(name)?.localHolder()
    return new AcquireTimeoutError(
      name,
      waited,
      holder === undefined ? patience.blocked : { ...patience.blocked, holder },
    )
  }
}
