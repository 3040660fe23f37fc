/**
 * What the caller keeps: a lease. All answers about holding are computed from the clock when they are asked for; the
 * abort signal is a convenience that comes late when the event loop was blocked.
 */
import type { GaveBack } from './driver.js'
import type { Engine } from './engine.js'
import { LeaseLostError, type LossCause } from './errors.js'
import type { AboutLease } from './events.js'
import type { Mode } from './mode.js'
import { quote } from './name.js'
import { duration } from './options.js'
import type { Line } from './queue.js'
import type { Watchdog, WatchdogHooks } from './watchdog.js'

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

/**
 * One holder: a slice of a grant. When the lock is passed on inside the process the grant and its watchdog live on under
 * the next hold, which has a token of its own.
 */
export class Hold implements WatchdogHooks {
  readonly engine: Engine
  readonly line: Line
  readonly watchdog: Watchdog
  readonly token: number
  readonly since: number
  readonly note: string | undefined
  mode: Mode
  lost: LeaseLostError | undefined
  count = 0
  #readers = 0
  #over = false
  #controller: AbortController | undefined

  constructor(line: Line, watchdog: Watchdog, token: number, note: string | undefined, maxHold: number) {
    this.engine = line.engine
    this.line = line
    this.watchdog = watchdog
    this.token = token
    this.note = note
    this.mode = watchdog.claim.mode
    this.since = this.engine.clock.now()
    watchdog.hooks = this
    watchdog.limit(this.since + maxHold)
  }

  get name(): string {
    return this.line.name
  }

  get over(): boolean {
    return this.#over
  }

  state(): LeaseState {
    if (this.#over) return this.lost === undefined ? 'released' : 'lost'
    return this.watchdog.proof()
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (!this.#over) this.watchdog.proof()
    if (this.lost !== undefined) this.#controller.abort(this.lost)
    return this.#controller.signal
  }

  /** The reason why it is not held: lost, or released by its own holder. */
  lostError(): LeaseLostError {
    return (
      this.lost ??
      new LeaseLostError(this.name, this.token, 'taken', new Error('it was released by its holder'))
    )
  }

  enter(mode: HeldLease['mode']): void {
    this.count++
    if (mode === 'shared') this.#readers++
  }

  /** @throws LeaseLostError when there is nothing left to enter */
  assertEnterable(): void {
    this.engine.clock.noticeSleep()
    const state = this.state()
    if (state === 'lost' || state === 'released') throw this.lostError()
  }

  /** The locks are being closed: given back whoever is inside. */
  async close(): Promise<void> {
    if (this.#over) return
    this.#over = true
    await answered(this.engine, this.watchdog.release(), this.watchdog.ttl)
  }

  /** One entry is left. The last one gives the lock away; a writer that leaves readers behind becomes a reader. */
  leave(mode: HeldLease['mode']): Promise<ReleaseOutcome> {
    this.count--
    if (mode === 'shared') this.#readers--
    if (this.state() === 'released') return Promise.resolve('already-released')
    if (this.state() === 'lost') return this.#leaveLost()
    if (this.count === 0) return this.#giveAway()
    if (mode === 'exclusive' && this.#readers === this.count)
      return this.line.downgrade(this).then(() => 'released')
    return Promise.resolve('released')
  }

  onRenewed(): void {
    const { events } = this.engine
    if (events.wants('renewed'))
      events.emit('renewed', { ...this.about(), remaining: this.watchdog.remaining })
  }

  onDoubtful(error: unknown): void {
    const { events } = this.engine
    if (events.wants('doubtful'))
      events.emit('doubtful', { ...this.about(), remaining: this.watchdog.remaining, error })
  }

  /** From the watchdog: every synchronous check says lost before any listener hears of it. */
  onLost(why: LossCause, cause?: unknown): void {
    if (this.#over) return
    this.#over = true
    this.lost = new LeaseLostError(this.name, this.token, why, cause)
    this.line.ended(this)
    this.engine.events.emit('lost', { ...this.about(), why, cause })
    this.#controller?.abort(this.lost)
  }

  /** What every event about this hold says. */
  about(): AboutLease {
    const { name, engine, mode, note, token } = this
    return { name, driver: engine.driver.name, mode, note, token }
  }

  #leaveLost(): Promise<ReleaseOutcome> {
    // The holder says it has stopped, so nobody needs to wait for the ttl; its answer does not depend on the store's.
    if (this.count === 0) this.watchdog.release().catch(() => undefined)
    return Promise.resolve('lost')
  }

  async #giveAway(): Promise<ReleaseOutcome> {
    this.#over = true
    const outcome = await this.line.giveAway(this)
    if (outcome === 'lost') this.lost = new LeaseLostError(this.name, this.token, 'taken')
    const { events, clock } = this.engine
    if (events.wants('released'))
      events.emit('released', { ...this.about(), held: clock.now() - this.since, outcome })
    return outcome === 'already-released' ? 'released' : outcome
  }
}

/** The store's answer to a release, or `unknown` when it does not answer within a sixth of the ttl. */
export async function answered(
  engine: Engine,
  release: Promise<GaveBack>,
  ttl: number,
): Promise<GaveBack | 'unknown'> {
  const patience = Math.max(50, ttl / 6)
  return new Promise((resolve) => {
    const stop = engine.clock.at(engine.clock.now() + patience, () => resolve('unknown'))
    release.then(resolve, () => resolve('unknown')).finally(stop)
  })
}
