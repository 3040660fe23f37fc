/**
 * Keeps one grant alive, and knows at every moment whether it is. The states are drawn in `lease-plan.ts`, which decides
 * what to do and when; this class keeps the data up to date and performs the actions.
 * Long because the notices, the deadlines and the end of one grant are read together.
 *
 * - *held*: a renewal is sent after a third of the time left at each proof. It may take a sixth of the ttl (at least
 *   50 ms); then the next one is sent, so at least three fit into a ttl. `renewal.ts` is one such request.
 * - *doubtful*: renewals get no reply or fail. The old deadline stands until it passes, and renewals go on.
 * - *lost*: the deadline passed, `maxHold` passed, or the store no longer keeps the grant. Final. The holder is
 *   notified first; the grant goes back to the store at once if the store has dropped it already, otherwise only when
 *   the store would have let it expire: the holder may need those last milliseconds to stop.
 *
 * A lock-delay is time of the grant that the holder does not get. The watchdog asks the store for `ttl + lockDelay`
 * and ends the lease `lockDelay` before the grant, so any end but a release leaves the lock taken for that much
 * longer. The store need not know of the delay, and the delay survives whatever the grant survives.
 */
import { ttlWithDelay } from './clock.js'
import type { Claim, Grant, ReleaseResult } from './driver.js'
import type { Engine } from './engine.js'
import type { LossCause } from './errors.js'
import {
  healthAt,
  type LeaseAction,
  type LeaseFacts,
  type LeaseHealth,
  lossAt,
  plan,
  planAfterExtend,
  planRenewal,
  planRetry,
  releaseAt,
  tryTime,
} from './lease-plan.js'
import type { LossSignal } from './loss-notice.js'
import type { Terms } from './options.js'
import { Renewal, type RenewalOwner } from './renewal.js'
import type { Entry } from './timer-queue.js'
import { Validity } from './validity.js'
import type { LazyTimer } from './wait-deadline.js'

export interface WatchdogHooks {
  onRenewed(): void
  onDoubtful(error: unknown): void
  onLost(why: LossCause, cause?: unknown): void
}

export class Watchdog implements Entry, LazyTimer, RenewalOwner {
  slot: number | undefined
  readonly grant: Grant
  readonly claim: Claim
  hooks: WatchdogHooks | undefined
  /** Set once the grant has ended, by loss or by release. */
  ended: LossCause | 'released' | undefined
  readonly #engine: Engine
  readonly #lease: LeaseFacts
  #isArmed = false
  /** Undefined until the first renewal is sent. */
  #validity: Validity | undefined
  /** The automatic renewal under way. */
  #trying: Renewal | undefined
  /** Settles with the renewal under way, automatic or not; never rejects. */
  #renewing: Promise<void> | undefined
  /** Why the last automatic renewal failed, until one succeeds. */
  lastError: unknown
  #storeLoss: LossSignal | undefined
  #onStoreLoss: (() => void) | undefined

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
    this.#lease = {
      ttl,
      lockDelay,
      until: grant.validUntil - lockDelay,
      knownUntil: Number.POSITIVE_INFINITY,
      maxHoldAt: Number.POSITIVE_INFINITY,
      maxLeaseTtl: 0,
      autoRenew,
      renewAt: 0,
      overdueAt: Number.POSITIVE_INFINITY,
      doubtReported: false,
      renewing: false,
      extending: 0,
      loss: undefined,
      ended: false,
    }
    this.#rememberUntil()
    if (autoRenew) planRenewal(this.#facts(), now)
    engine.lazyTimers.addBriefly(this)
  }

  get isOver(): boolean {
    return this.ended !== undefined
  }

  /** Still held after the current microtasks: only now is the grant worth an entry in the timer queue. */
  arm(): void {
    this.#isArmed = true
    // Most grants are released before this point, and listening for a loss has a cost.
    const { lost } = this.grant
    if (lost !== undefined) this.#watchLoss(lost)
    this.#schedule()
  }

  /** A renewal with the caller's own ttl is under way: its outcome concerns only the present holder. */
  get extending(): boolean {
    return this.#lease.extending > 0
  }

  get ttl(): number {
    return this.#lease.ttl
  }

  get lockDelay(): number {
    return this.#lease.lockDelay
  }

  get validity(): Validity {
    this.#validity ??= new Validity()
    return this.#validity
  }

  get autoRenew(): boolean {
    return this.#lease.autoRenew
  }

  set autoRenew(on: boolean) {
    this.#lease.autoRenew = on
  }

  /** Clock reading until which the holder may rely on the grant; the store keeps it `lockDelay` longer. */
  get #until(): number {
    const { validUntil } = this.grant
    const stored = this.#validity === undefined ? validUntil : Math.min(validUntil, this.#validity.until)
    return stored - this.lockDelay
  }

  #rememberUntil(): void {
    const { until } = this.#lease
    if (until > Number.NEGATIVE_INFINITY) this.#lease.knownUntil = until
  }

  /** The data of this moment: drivers move `grant.validUntil` whenever they know more. */
  #facts(): LeaseFacts {
    const lease = this.#lease
    lease.until = this.#until
    lease.maxLeaseTtl = this.maxLeaseTtl
    lease.renewing = this.#renewing !== undefined
    return lease
  }

  /** The requested ttl, or as much of it as the store can give. */
  get maxLeaseTtl(): number {
    return this.#leaseTtl(this.ttl)
  }

  #leaseTtl(ttl: number): number {
    const { maxTtl = Number.POSITIVE_INFINITY } = this.grant
    return Math.max(0, Math.min(ttl, maxTtl - this.lockDelay))
  }

  get remaining(): number {
    return this.ended === undefined ? Math.max(0, this.#until - this.#engine.clock.now()) : 0
  }

  /** The state at this moment, computed from the clock, including an expiry that no timer has reported yet. Notifies nobody. */
  check(): LeaseHealth {
    const lease = this.#lease
    if (lease.ended || lease.loss !== undefined) return 'lost'
    const now = this.#engine.clock.now()
    lease.until = this.#until
    const health = healthAt(lease, now)
    if (health !== 'lost') return health
    lease.loss = lossAt(lease, now)
    if (this.#isArmed) this.#engine.timers.set(this, now)
    return health
  }

  /** The same after a check of the boot clock: a machine that has just woken up has lost what expired meanwhile. Reports a loss. */
  checkNow(): LeaseHealth {
    this.#engine.clock.noticeSleep()
    const health = this.check()
    const { loss } = this.#lease
    if (loss !== undefined) this.lose(loss, this.lastError)
    return health
  }

  /** Why the grant is lost, once `check` returns lost. */
  get loss(): { readonly why: LossCause; readonly cause: unknown } {
    const why = this.#lease.loss ?? (this.ended === 'released' ? undefined : this.ended) ?? 'taken'
    return { why, cause: why === 'expired' ? this.lastError : undefined }
  }

  /** May the store still carry out a renewal for less than `ttl` ms, later than all that were answered? */
  mayShortenTo(ttl: number): boolean {
    return this.#validity !== undefined && this.#validity.leastTtl < ttlWithDelay(ttl, this.lockDelay)
  }

  /** From now on the grant is lost at `at`, however healthy. */
  limit(at: number): void {
    if (this.#lease.maxHoldAt === at) return
    this.#lease.maxHoldAt = at
    if (this.#isArmed) this.#schedule()
  }

  onDue(): void {
    this.#engine.clock.noticeSleep()
    for (;;) {
      const { action } = plan(this.#facts(), this.#engine.clock.now())
      if (action === undefined) return this.#schedule()
      this.#perform(action)
    }
  }

  /** Each of them changes the plan. */
  #perform(action: LeaseAction): void {
    if (action === 'lose') this.checkNow()
    else if (action === 'report-doubt') this.#reportDoubt()
    else this.#try()
  }

  /**
   * One explicit renewal. Resolves with false when the store replies that the grant is lost; rejects when the outcome
   * is unknown, and the old ttl stays then. Renewals are sent one after the other: of two under way at once, nobody
   * knows which the store carries out last.
   */
  async renewNow(ttl: number): Promise<boolean> {
    this.#lease.extending++
    try {
      while (this.#renewing !== undefined) await this.#engine.keepAliveDuring(this.#renewing)
      if (this.checkNow() === 'lost') return false
      const renewal = this.#newRenewal(ttl, () => {
        this.#lease.ttl = ttl
      })
      const renewing = renewal.send()
      const settled = () => {
        this.#renewing = undefined
      }
      this.#renewing = renewing.then(settled, settled)
      await renewing
      return this.ended === undefined
    } finally {
      this.#lease.extending--
      if (this.ended === undefined) {
        planAfterExtend(this.#facts(), this.#engine.clock.now())
        this.#schedule()
      }
    }
  }

  #newRenewal(ttl: number, inTime: () => void): Renewal {
    return new Renewal(this.#engine, this, {
      ttl: ttlWithDelay(ttl, this.lockDelay),
      timeout: tryTime(this.#leaseTtl(ttl)),
      until: this.#until,
      ref: this.extending,
      inTime,
    })
  }

  lose(because: LossCause, cause?: unknown): void {
    if (this.ended !== undefined) return
    const why = this.#lease.loss ?? because
    this.#end(why)
    this.hooks?.onLost(why, cause)
    const at = releaseAt(this.#facts(), why)
    const releaseGrant = () => void this.release()
    if (at === 'now') releaseGrant()
    else this.#engine.schedule(Math.max(at, this.#engine.clock.now()), releaseGrant)
  }

  /**
   * Releases the grant. Rejects when the store did not reply; the grant is over here in any case, and the release is
   * repeated in the background for as long as the grant could still block others.
   */
  release(): Promise<ReleaseResult> {
    if (this.ended === undefined) this.#end('released')
    return this.#engine.releases.send(this)
  }

  /** Another process looks after the grant from now on. */
  detach(): void {
    this.#end('released')
    this.grant.detach?.()
  }

  #end(how: LossCause | 'released'): void {
    this.ended = how
    this.#lease.ended = true
    this.#trying?.abort()
    this.#trying = undefined
    if (this.#onStoreLoss !== undefined) this.#storeLoss?.removeEventListener('abort', this.#onStoreLoss)
    this.#engine.timers.remove(this)
  }

  #try(): void {
    const settled = () => {
      // A listener of its success may have sent another.
      if (this.#renewing !== renewing) return
      this.#trying = undefined
      this.#renewing = undefined
    }
    const failed = (error: unknown) => {
      settled()
      this.#tryFailed(error)
    }
    this.#trying = this.#newRenewal(this.ttl, settled)
    const renewing = this.#trying.send().then(settled, failed)
    this.#renewing = renewing
  }

  replied(validUntil: number | undefined): void {
    if (this.ended !== undefined) return
    if (validUntil === undefined && this.checkNow() !== 'lost') this.lose('taken')
    // The reply may have waited for a machine that slept: do not report a renewal that has already expired.
    if (this.checkNow() === 'lost') return
    this.lastError = undefined
    const lease = this.#facts()
    lease.overdueAt = Number.POSITIVE_INFINITY
    if (lease.autoRenew) planRenewal(lease, this.#engine.clock.now())
    this.#schedule()
    this.hooks?.onRenewed()
  }

  #tryFailed(error: unknown): void {
    if (this.ended !== undefined) return
    this.lastError = error
    planRetry(this.#facts(), this.#engine.clock.now(), this.#engine.random())
    this.#reportDoubt()
    this.#schedule()
  }

  #reportDoubt(): void {
    if (this.#lease.doubtReported || this.ended !== undefined) return
    this.#lease.doubtReported = true
    this.hooks?.onDoubtful(this.lastError)
  }

  #watchLoss(loss: LossSignal): void {
    this.#storeLoss = loss
    this.#onStoreLoss = () => {
      const why = lossAt(this.#facts(), this.#engine.clock.now()) ?? 'revoked'
      this.lose(why, why === 'revoked' ? loss.reason : this.lastError)
    }
    if (loss.aborted) return this.#onStoreLoss()
    loss.addEventListener('abort', this.#onStoreLoss)
  }

  /** Sets the next moment to act: renew, give up a try, report doubtful, report lost. */
  #schedule(): void {
    if (this.ended !== undefined) return
    const { nextAt } = plan(this.#facts(), this.#engine.clock.now())
    this.#rememberUntil()
    this.#engine.timers.set(this, nextAt)
  }
}
