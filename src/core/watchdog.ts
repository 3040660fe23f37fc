/**
 * Keeps one grant alive, and knows at every moment whether it is.
 * Long because it is one state machine: whoever changes a transition should see them all.
 *
 * ```
 *            renewal overdue              validUntil passed (from the clock, not from a timer)
 *   held ───────────────────► doubtful ─────────────────────────────────────────────► lost: expired
 *    ▲                           │        the store says "not yours" / gives notice
 *    └───────── renewed ─────────┘       ────────────────────────────────────────────► lost: taken / revoked
 * ```
 * A third of what is left after each proof, a renewal is tried. A try may take a sixth of the ttl (at least 50 ms);
 * then the next one starts, so at least three fit into a ttl. Silence, time-outs and connection errors only make the
 * grant doubtful: the old `validUntil` stands until it passes. A late answer to an earlier try still counts, because it
 * carries the deadline of its own request. Lost is sticky.
 *
 * After a loss the grant is given back in the background, but not before the store would have let go by itself: the
 * holder that has just been told may need those last milliseconds.
 *
 * A lock-delay is time of the grant that the holder is not told of. It asks the store for `ttl + lockDelay` and ends its lease
 * `lockDelay` before the grant, so whatever ends it but a release leaves the lock taken for that much longer; the store needs to
 * know nothing of it, and it outlives whatever the grant outlives.
 */
import { driftShare, margin, ttlWithDelay } from './clock.js'
import type { Claim, GaveBack, Grant } from './driver.js'
import type { Engine } from './engine.js'
import { BackendError, type LossCause } from './errors.js'
import { quote } from './name.js'
import type { Terms } from './options.js'
import type { Entry } from './timetable.js'
import type { Armed } from './wait.js'

export type Proof = 'held' | 'doubtful' | 'lost'

export interface WatchdogHooks {
  onRenewed(): void
  onDoubtful(error: unknown): void
  onLost(why: LossCause, cause?: unknown): void
}

export class Watchdog implements Entry, Armed {
  slot: number | undefined
  readonly grant: Grant
  readonly claim: Claim
  ttl: number
  readonly lockDelay: number
  autoRenew: boolean
  hooks: WatchdogHooks | undefined
  /** Set once the grant has ended, by loss or by giving it back. */
  ended: LossCause | 'released' | undefined
  readonly #engine: Engine
  /** A renewal that should have been answered by then makes the grant doubtful. */
  #overdueAt = Number.POSITIVE_INFINITY
  #renewAt = 0
  /** Has this doubt been reported? */
  #told = false
  #armed = false
  #trying: AbortController | undefined
  #tryEndsAt = 0
  #lastError: unknown
  #maxHoldAt = Number.POSITIVE_INFINITY
  #onNotice: (() => void) | undefined

  constructor(
    engine: Engine,
    claim: Claim,
    grant: Grant,
    { ttl, lockDelay, autoRenew }: Pick<Terms, 'ttl' | 'lockDelay' | 'autoRenew'>,
    now: number = engine.clock.now(),
  ) {
    this.#engine = engine
    this.claim = claim
    this.grant = grant
    this.ttl = ttl
    this.lockDelay = lockDelay
    this.autoRenew = autoRenew
    if (grant.lost !== undefined) this.#heed(grant.lost)
    if (autoRenew) this.#plan(now)
    engine.unarmed.add(this)
  }

  get isOver(): boolean {
    return this.ended !== undefined
  }

  /** Still held once the microtasks are done: only now is it worth a place in the timetable. */
  arm(): void {
    this.#armed = true
    this.#schedule()
  }

  /** Clock reading until which the holder may rely on it. */
  get #until(): number {
    return this.grant.validUntil - this.lockDelay
  }

  get remaining(): number {
    return this.ended === undefined ? Math.max(0, this.#until - this.#engine.clock.now()) : 0
  }

  /** The truth at this moment, computed from the clock; notices an expiry that no timer has reported yet. */
  proof(): Proof {
    if (this.ended !== undefined) return 'lost'
    const now = this.#engine.clock.now()
    if (now >= this.#until) {
      this.lose('expired', this.#lastError)
      return 'lost'
    }
    if (now >= this.#maxHoldAt) {
      this.lose('max-hold')
      return 'lost'
    }
    return now >= this.#overdueAt ? 'doubtful' : 'held'
  }

  /** The same after a look at the boot clock: a machine that has just woken up has lost what ran out meanwhile. */
  proofAwake(): Proof {
    this.#engine.clock.noticeSleep()
    return this.proof()
  }

  /** From now on the grant is lost at `at`, however healthy. */
  limit(at: number): void {
    if (this.#maxHoldAt === at) return
    this.#maxHoldAt = at
    if (this.#armed) this.#schedule()
  }

  due(now: number): void {
    if (this.proof() === 'lost') return
    if (this.#trying !== undefined && now >= this.#tryEndsAt) this.#giveUpTry(new Error('no answer in time'))
    if (now >= this.#overdueAt) this.#tellDoubtful()
    if (this.#trying === undefined && this.autoRenew && now >= this.#renewAt) void this.#try()
    this.#schedule()
  }

  /** One explicit renewal. Resolves with false when the store says it is lost; rejects when it cannot tell. */
  async renewNow(ttl: number): Promise<boolean> {
    this.ttl = ttl
    const controller = new AbortController()
    const stop = this.#engine.clock.at(
      Math.min(this.#engine.clock.now() + this.#tryTime(), this.#until),
      () => controller.abort(this.#noAnswer()),
    )
    try {
      const answer = await Promise.race([
        this.grant.renew(ttlWithDelay(ttl, this.lockDelay), controller.signal),
        rejection(controller.signal),
      ])
      this.#answered(answer)
      return this.ended === undefined
    } finally {
      stop()
    }
  }

  lose(why: LossCause, cause?: unknown): void {
    if (this.ended !== undefined) return
    this.#end(why)
    this.hooks?.onLost(why, cause)
    const giveBack = () => this.#engine.giveBack(this.release())
    if (why === 'taken' || why === 'revoked') giveBack()
    else {
      const late = ttlWithDelay(this.ttl, this.lockDelay) * driftShare + margin
      this.#engine.later(this.grant.validUntil + late, giveBack)
    }
  }

  /**
   * Gives the grant back. Rejects when the store did not answer; the grant is over here in any case, and it is tried
   * again in the background for as long as it could still block others.
   */
  release(): Promise<GaveBack> {
    if (this.ended === undefined) this.#end('released')
    const answer = this.grant.release()
    answer.catch(() => {
      const again = this.#engine.clock.now() + this.ttl / 6
      if (again < this.grant.validUntil)
        this.#engine.later(again, () => void this.release().catch(() => undefined))
    })
    return answer
  }

  /** Somebody else looks after the grant from now on. */
  detach(): void {
    this.#end('released')
    this.grant.detach?.()
  }

  #end(how: LossCause | 'released'): void {
    this.ended = how
    this.#trying?.abort()
    this.#trying = undefined
    if (this.#onNotice !== undefined) this.grant.lost?.removeEventListener('abort', this.#onNotice)
    this.#engine.timetable.remove(this)
  }

  #noAnswer(): BackendError {
    const { driver } = this.#engine
    const what = `gave no answer about ${quote(this.claim.name)} within ${Math.round(this.#tryTime())} ms`
    return new BackendError(driver.name, what)
  }

  #tryTime(): number {
    return Math.max(50, this.ttl / 6)
  }

  async #try(): Promise<void> {
    const controller = new AbortController()
    this.#trying = controller
    this.#tryEndsAt = this.#engine.clock.now() + this.#tryTime()
    try {
      const answer = await this.grant.renew(ttlWithDelay(this.ttl, this.lockDelay), controller.signal)
      if (this.#trying === controller) this.#trying = undefined
      this.#answered(answer)
    } catch (error) {
      if (this.#trying === controller) this.#giveUpTry(error)
    }
  }

  #answered(validUntil: number | undefined): void {
    if (this.ended !== undefined) return
    if (validUntil === undefined) this.lose('taken')
    // The answer may have waited for a machine that slept: nobody must hear of a renewal that is over.
    if (this.proofAwake() === 'lost') return
    this.#lastError = undefined
    this.#overdueAt = Number.POSITIVE_INFINITY
    this.#schedule()
    this.hooks?.onRenewed()
  }

  #giveUpTry(error: unknown): void {
    this.#trying?.abort(error)
    this.#trying = undefined
    if (this.ended !== undefined) return
    this.#lastError = error
    const now = this.#engine.clock.now()
    // A refused connection fails at once: a twentieth of the ttl, with jitter, keeps a dead store from being hammered.
    this.#renewAt = now + Math.max(10, this.ttl / 20) * (0.5 + this.#engine.random())
    this.#overdueAt = Math.min(this.#overdueAt, now)
    this.#tellDoubtful()
    this.#schedule()
  }

  #tellDoubtful(): void {
    if (this.#told || this.ended !== undefined) return
    this.#told = true
    this.hooks?.onDoubtful(this.#lastError)
  }

  #heed(notice: AbortSignal): void {
    this.#onNotice = () => this.lose('revoked', notice.reason)
    notice.addEventListener('abort', this.#onNotice, { once: true })
  }

  /** When to look again: to renew, to give up a try, to say doubtful, to say lost. */
  #schedule(now: number = this.#engine.clock.now()): void {
    if (this.ended !== undefined) return
    let next = Math.min(this.#until, this.#maxHoldAt)
    if (this.autoRenew) {
      if (this.#overdueAt === Number.POSITIVE_INFINITY) this.#plan(now)
      next = Math.min(next, this.#trying === undefined ? this.#renewAt : this.#tryEndsAt)
    }
    this.#engine.timetable.set(this, next)
  }

  /** After a proof: renew at a third of what is left, on a common beat so that many leases renew in one round trip. */
  #plan(now: number): void {
    this.#told = false
    const left = this.#until - now
    const beat = this.ttl / 12
    const at = now + left / 3
    this.#renewAt = left > this.ttl / 2 ? Math.max(now, Math.floor(at / beat) * beat) : at
    this.#overdueAt = this.#renewAt + this.#tryTime()
  }
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )
}
