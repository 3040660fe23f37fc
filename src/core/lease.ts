/**
 * What the caller keeps: a lease. All answers about holding are computed from the clock when they are asked for; the
 * abort signal is a convenience that comes late when the event loop was blocked.
 */
import { LeaseLostError } from './errors.js'
import type { Hold } from './hold.js'
import { quote } from './name.js'
import { duration } from './options.js'

export type LeaseState = 'held' | 'doubtful' | 'lost' | 'released'

/**
 * What became of it: given back; had been given back before; it was lost before; or the store did not answer, so that
 * it may block others until its ttl has passed.
 */
export type ReleaseOutcome = 'released' | 'already-released' | 'lost' | 'unknown'

export interface Lease extends AsyncDisposable {
  readonly name: string
  /** The fence: grows with every grant of this name. Give it to the resource, which refuses what is older than the newest it saw. */
  readonly token: number
  /** `doubtful`: a renewal is overdue, but it still holds. `lost` and `released` are for good. */
  readonly state: LeaseState
  /** Aborts when the lease is lost, never on release; the reason is a `LeaseLostError`. May come late: see `assertHeld`. */
  readonly signal: AbortSignal
  /** True while the lease is proven: now, by the clock, also right after the event loop was blocked. */
  readonly isHeld: boolean
  /** How many times it has been entered and not yet left: 1, more with `reentrant`, 0 after release. */
  readonly holdCount: number
  /** Milliseconds for which holding is proven without another renewal; 0 once it is over. */
  remaining(): number
  /**
   * Call it right before a write. `minMs`: how much time must be left, in ms.
   * @throws LeaseLostError when the lease is lost, or was released, or has less time left.
   */
  assertHeld(minMs?: number): void
  /**
   * Renews now, for `ttl` ms from now on. Resolves with the milliseconds left.
   * @throws LeaseLostError when it is not ours any more; whatever the store threw when it cannot tell: the old deadline then stands.
   */
  extend(ttl?: number): Promise<number>
  /** Idempotent; never rejects. Resolves when the next waiter can be granted. */
  release(): Promise<ReleaseOutcome>
}

/** One entry into a hold. The first one and those nested in it share a {@link Hold}. */
export class HeldLease implements Lease {
  readonly hold: Hold
  readonly mode: 'exclusive' | 'shared' | 'permits'
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

  assertHeld(minMs = 0): void {
    duration('minMs', minMs, 0, false)
    if (!this.isHeld) throw this.hold.lostError()
    const left = this.hold.watchdog.remaining
    if (left < minMs) {
      const cause = new RangeError(
        `${quote(this.name)} has ${Math.floor(left)} ms left, asked for ${minMs} ms; extend() first`,
      )
      throw new LeaseLostError(this.name, this.token, 'expired', cause)
    }
  }

  async extend(ttl?: number): Promise<number> {
    const { traits } = this.hold.engine
    const asked = ttl === undefined ? this.hold.watchdog.ttl : duration('ttl', ttl, traits.minTtl, false)
    if (!this.isHeld) throw this.hold.lostError()
    if (!(await this.hold.watchdog.renewNow(asked))) throw this.hold.lostError()
    return this.remaining()
  }

  release(): Promise<ReleaseOutcome> {
    if (this.#released !== undefined)
      return this.#released.then((first) => (first === 'lost' ? first : 'already-released'))
    this.#released = this.hold.leave(this.mode)
    return this.#released
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}
