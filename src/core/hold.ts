import type { ReleaseResult } from './driver.js'
import type { Engine } from './engine.js'
import { LeaseLostError, type LossCause } from './errors.js'
import type { AboutLease } from './events.js'
import type { HeldLease, LeaseState, ReleaseOutcome } from './lease.js'
import type { LocalQueue } from './local-queue.js'
import type { Mode } from './mode.js'
import type { Terms } from './options.js'
import type { Watchdog, WatchdogHooks } from './watchdog.js'

/** One local owner of a grant. After a local hand-over the grant and its watchdog live on under the next hold, which has its own token. */
export class Hold implements WatchdogHooks {
  readonly engine: Engine
  readonly queue: LocalQueue
  readonly watchdog: Watchdog
  readonly token: number
  readonly since: number
  readonly note: string | undefined
  /** How long its grant may be cached after the release, in ms. */
  readonly linger: number
  mode: Mode
  lost: LeaseLostError | undefined
  count = 0
  /** Its holder was asked to give way: it is not handed over inside the process. */
  revoked = false
  /** Called once when the hold is over, however it ended. */
  onOver: (() => void) | undefined
  #readers = 0
  /** The error thrown for a loss that no listener has been notified of yet. */
  #pendingLoss: LeaseLostError | undefined
  #over = false
  #controller: AbortController | undefined

  constructor(queue: LocalQueue, watchdog: Watchdog, token: number, terms: Terms, now: number) {
    this.engine = queue.engine
    this.queue = queue
    this.watchdog = watchdog
    this.token = token
    this.note = terms.note
    this.linger = terms.linger
    this.mode = watchdog.claim.mode
    this.since = now
    watchdog.hooks = this
    watchdog.limit(now + terms.maxHold)
  }

  get name(): string {
    return this.queue.name
  }

  get over(): boolean {
    return this.#over
  }

  state(): LeaseState {
    if (this.#over) return this.lost === undefined ? 'released' : 'lost'
    return this.watchdog.check()
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      // It has no listeners yet.
      if (this.state() === 'lost') this.#controller.abort(this.lostError())
    }
    return this.#controller.signal
  }

  /** Why the lock is not held: lost, or released by its own holder. */
  lostError(): LeaseLostError {
    if (this.lost !== undefined) return this.lost
    if (this.#over || this.watchdog.check() !== 'lost')
      return new LeaseLostError(this.name, this.token, 'taken', undefined, 'was released by its holder')
    const { why, cause } = this.watchdog.loss
    this.#pendingLoss ??= new LeaseLostError(this.name, this.token, why, cause)
    return this.#pendingLoss
  }

  enter(mode: HeldLease['mode']): void {
    this.count++
    if (mode === 'shared') this.#readers++
  }

  /** @throws LeaseLostError when there is no hold left to enter */
  assertEnterable(): void {
    this.engine.clock.noticeSleep()
    const state = this.state()
    if (state === 'lost' || state === 'released') throw this.lostError()
  }

  /** The locks are being closed: releases the hold even while somebody is inside. */
  async close(): Promise<void> {
    if (this.#over) return
    this.#end()
    const gone = (outcome: ReleaseResult | undefined) => this.#finishRelease(outcome ?? 'unknown')
    await this.engine.releases.answered(this.watchdog, this.watchdog.release(), gone)
  }

  /** The grant lives on in another process. @throws LeaseLostError when the lock is not held */
  detach(): void {
    this.assertEnterable()
    this.#end()
    this.watchdog.detach()
    this.queue.ended(this)
    this.#emitReleased('exported')
  }

  #end(): void {
    this.#over = true
    this.onOver?.()
  }

  /** Ends one entry. The last one gives the lock away; a writer that leaves readers behind becomes a reader. */
  leave(mode: HeldLease['mode']): Promise<ReleaseOutcome> {
    this.count--
    if (mode === 'shared') this.#readers--
    // A grant that expired while the machine slept is neither released nor handed over.
    const state = this.#over ? this.state() : this.watchdog.checkNow()
    if (state === 'released') return Promise.resolve('already-released')
    if (state === 'lost') return this.#leaveLost()
    if (this.count === 0) return this.#handOffOrRelease()
    const left =
      mode === 'exclusive' && this.#readers === this.count ? this.queue.downgrade(this) : Promise.resolve()
    return left.then(() => 'released')
  }

  onRenewed(): void {
    // It was released and is to be handed over: no lease was renewed.
    if (this.#over) return
    const { events } = this.engine
    if (events.wants('renewed'))
      events.emit('renewed', { ...this.about(), remaining: this.watchdog.remaining })
  }

  onDoubtful(error: unknown): void {
    if (this.#over) return this.queue.cache?.end()
    const { events } = this.engine
    if (events.wants('doubtful'))
      events.emit('doubtful', { ...this.about(), remaining: this.watchdog.remaining, error })
  }

  /** Called by the watchdog: every synchronous check returns lost before any listener is notified. */
  onLost(why: LossCause, cause?: unknown): void {
    if (this.#over) return this.queue.handoff?.abandon(this)
    this.#end()
    this.lost = this.#pendingLoss ?? new LeaseLostError(this.name, this.token, why, cause)
    this.queue.ended(this)
    const held = this.engine.clock.now() - this.since
    this.engine.events.emit('lost', { ...this.about(), held, why, cause })
    this.#controller?.abort(this.lost)
  }

  /** The fields of every event about this hold. */
  about(): AboutLease {
    const { name, engine, mode, note, token } = this
    return { name, driver: engine.driver.name, mode, note, token }
  }

  #leaveLost(): Promise<ReleaseOutcome> {
    // It may have expired since `leave` checked, and local waiters must be served.
    if (!this.#over) this.watchdog.checkNow()
    // The holder reports that it has stopped, so nobody needs to wait for the ttl; its result does not depend on the
    // store's.
    if (this.count === 0) void this.watchdog.release()
    return Promise.resolve('lost')
  }

  #handOffOrRelease(): Promise<ReleaseOutcome> {
    this.#end()
    if (this.queue.handOff(this)) return Promise.resolve('released')
    const { engine, watchdog } = this
    const gone = (outcome: ReleaseResult | undefined) => this.#finishRelease(outcome ?? 'unknown')
    const answer = engine.releases.answered(watchdog, watchdog.release(), gone)
    this.queue.pump()
    return answer
  }

  /** A request of this process has the grant now, or is about to. */
  onHandedOff(): void {
    this.#emitReleased('released')
  }

  #finishRelease(outcome: ReleaseResult | 'unknown'): ReleaseOutcome {
    if (outcome === 'lost') this.lost = new LeaseLostError(this.name, this.token, 'taken')
    this.#emitReleased(outcome)
    // The store may have carried out the same release before, when its reply was lost.
    return outcome === 'already-released' ? 'released' : outcome
  }

  #emitReleased(outcome: ReleaseResult | 'unknown' | 'exported'): void {
    const { events, clock, driver } = this.engine
    if (!events.wants('released')) return
    const { name, mode, note, token } = this
    const held = clock.now() - this.since
    events.emit('released', { name, driver: driver.name, mode, note, token, held, outcome })
  }
}
