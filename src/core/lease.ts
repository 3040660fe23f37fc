/**
 * What the caller keeps: a lease. It computes every answer about ownership from the clock at the moment of the call;
 * the abort signal is a convenience that comes late when the event loop was blocked.
 */

import { type Duration, duration } from './duration.js'
import { LeaseLostError } from './errors.js'
import type { Hold } from './hold.js'
import type { Watched } from './leaks.js'
import { quote } from './name.js'

export type LeaseState = 'held' | 'doubtful' | 'lost' | 'released'

/**
 * The outcome of a release: released now; already released; lost before; or the store did not reply, so that the
 * lease may block others until its ttl has passed.
 */
export type ReleaseOutcome = 'released' | 'already-released' | 'lost' | 'unknown'

export interface Lease extends AsyncDisposable {
  readonly name: string
  /**
   * The fencing token: grows with every grant of this name. Pass it to the resource, which refuses tokens older than
   * the newest it saw.
   */
  readonly token: number
  /**
   * How long each renewal is valid, in ms: the requested `ttl`, or what the store can give of it. ZooKeeper bounds it
   * by the session (`locks.driver.traits.maxTtl` gives the bound, before any I/O).
   */
  readonly ttl: number
  /** `doubtful`: a renewal is overdue, but the lease still holds. `lost` and `released` are final. */
  readonly state: LeaseState
  /**
   * Aborts when the lease is lost, never on release; the reason is a `LeaseLostError`. It may abort late: see
   * `assertHeld`.
   */
  readonly signal: AbortSignal
  /** True while ownership is proven: now, by the clock, also right after the event loop was blocked. */
  readonly isHeld: boolean
  /** How many entries have not been left yet: 1, more with `reentrant`, 0 after release. */
  readonly holdCount: number
  /** Milliseconds for which ownership is proven without another renewal; 0 once the lease is over. */
  remaining(): number
  /**
   * Call it right before a write. `minMs`: how much time must be left, in ms.
   * @throws LeaseLostError when the lease is lost, was released, or has less time left.
   */
  assertHeld(minMs?: Duration): void
  /**
   * Renews now, for `ttl` ms from now on, which may be longer or shorter than before. Resolves with the milliseconds
   * left. A shorter `ttl` counts from the call on. Concurrent calls are sent one after the other.
   * @throws LeaseLostError when the lease is no longer ours; RangeError when the driver cannot keep it that long, and
   * nothing changes; BackendError when the outcome is unknown, with code `UNAVAILABLE` after a sixth of `ttl` without a
   * reply: the old `ttl` then stays, but the lease counts for no longer than the shorter of the two.
   */
  extend(ttl?: Duration): Promise<number>
  /** Idempotent; never rejects. Resolves when the next waiter can be granted. */
  release(): Promise<ReleaseOutcome>
}

/** One entry into a hold. The first entry and those nested in it share a {@link Hold}. */
export class HeldLease implements Lease {
  readonly hold: Hold
  readonly mode: 'exclusive' | 'shared' | 'permits'
  /** Set where leaks are detected. */
  watched: Watched | undefined
  #released: Promise<ReleaseOutcome> | undefined

  constructor(hold: Hold, mode: HeldLease['mode']) {
    this.hold = hold
    this.mode = mode
    hold.enter(mode)
  }

  get name(): string {
    return this.hold.name
  }

  get token(): number {
    return this.hold.token
  }

  get ttl(): number {
    return this.hold.watchdog.maxLeaseTtl
  }

  get state(): LeaseState {
    return this.#released === undefined
      ? this.hold.state()
      : this.hold.lost === undefined
        ? 'released'
        : 'lost'
  }

  get signal(): AbortSignal {
    return this.hold.signal
  }

  get isHeld(): boolean {
    this.hold.engine.clock.noticeSleep()
    const state = this.state
    return state === 'held' || state === 'doubtful'
  }

  get holdCount(): number {
    return this.hold.count
  }

  remaining(): number {
    return this.isHeld ? this.hold.watchdog.remaining : 0
  }

  assertHeld(minMs: Duration = 0): void {
    const least = duration('minMs', minMs, 0, false)
    if (!this.isHeld) throw this.hold.lostError()
    const left = this.hold.watchdog.remaining
    if (left < least) {
      const cause = new RangeError(
        `${quote(this.name)} has ${Math.floor(left)} ms left, asked for ${least} ms; extend() first`,
      )
      throw new LeaseLostError(this.name, this.token, 'expired', cause)
    }
  }

  async extend(ttl?: Duration): Promise<number> {
    const { traits } = this.hold.engine
    const asked = ttl === undefined ? this.hold.watchdog.ttl : duration('ttl', ttl, traits.minTtl, false)
    if (!this.isHeld) throw this.hold.lostError()
    if (!(await this.hold.watchdog.renewNow(asked))) throw this.hold.lostError()
    return this.remaining()
  }

  release(): Promise<ReleaseOutcome> {
    if (this.#released !== undefined)
      return this.#released.then((first) => (first === 'lost' ? first : 'already-released'))
    this.watched?.released()
    this.#released = this.hold.leave(this.mode)
    return this.#released
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}
