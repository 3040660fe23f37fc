/**
 * Keeps one grant alive, and knows at every moment whether it is. The states are drawn in `lease-plan.ts`, which decides
 * what to do and when; `lease-record.ts` has the data, `renewals.ts` sends the renewals, and this class performs the
 * actions and notifies the holder.
 * Long because the notices and the end of one grant are read together.
 *
 * - *held*: a renewal is sent after a third of the time left at each proof. It may take a sixth of the ttl (at least
 *   50 ms); then the next one is sent, so at least three fit into a ttl.
 * - *doubtful*: renewals get no reply or fail. The old deadline stands until it passes, and renewals go on.
 * - *lost*: the deadline passed, `maxHold` passed, or the store no longer keeps the grant. Final. The holder is
 *   notified first; the grant goes back to the store at once if the store has dropped it already, otherwise only when
 *   the store would have let it expire: the holder may need those last milliseconds to stop.
 *
 * A lock-delay is time of the grant that the holder does not get. The watchdog asks the store for `ttl + lockDelay`
 * and ends the lease `lockDelay` before the grant, so any end but a release leaves the lock taken for that much
 * longer. The store need not know of the delay, and the delay survives whatever the grant survives.
 */
import type { Claim, Grant, ReleaseResult } from './driver.js'
import type { Engine } from './engine.js'
import type { LossCause } from './errors.js'
import {
  healthAt,
  type LeaseAction,
  type LeaseHealth,
  lossAt,
  plan,
  planAfterExtend,
  planRenewal,
  planRetry,
  releaseAt,
} from './lease-plan.js'
import { LeaseRecord } from './lease-record.js'
import type { LossSignal } from './loss-notice.js'
import type { Terms } from './options.js'
import { Renewals, type RenewalsOwner } from './renewals.js'
import type { Entry } from './timer-queue.js'
import type { LazyTimer } from './wait-deadline.js'

export interface WatchdogHooks {
  onRenewed(): void
  onDoubtful(error: unknown): void
  onLost(why: LossCause, cause?: unknown): void
}

export class Watchdog implements Entry, LazyTimer, RenewalsOwner {
  slot: number | undefined
  readonly grant: Grant
  readonly claim: Claim
  hooks: WatchdogHooks | undefined
  readonly #engine: Engine
  readonly #lease: LeaseRecord
  #isArmed = false
  /** Made for the first renewal. */
  #lazyRenewals: Renewals | undefined
  #storeLoss: LossSignal | undefined
  #onStoreLoss: (() => void) | undefined

  constructor(
    engine: Engine,
    claim: Claim,
    grant: Grant,
    terms: Pick<Terms, 'ttl' | 'lockDelay' | 'autoRenew'>,
    now: number = engine.clock.now(),
  ) {
    this.#engine = engine
    this.claim = claim
    this.grant = grant
    this.#lease = new LeaseRecord(grant, terms)
    if (terms.autoRenew) planRenewal(this.#lease, now)
    engine.lazyTimers.addBriefly(this)
  }

  get isOver(): boolean {
    return this.#lease.ended
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

  get autoRenew(): boolean {
    return this.#lease.autoRenew
  }

  set autoRenew(on: boolean) {
    this.#lease.autoRenew = on
  }

  /** The requested ttl, or as much of it as the store can give. */
  get maxLeaseTtl(): number {
    return this.#lease.maxLeaseTtl
  }

  get remaining(): number {
    const lease = this.#lease
    return lease.ended ? 0 : Math.max(0, lease.until - this.#engine.clock.now())
  }

  /** The state at this moment, computed from the clock, including an expiry that no timer has reported yet. Notifies nobody. */
  check(): LeaseHealth {
    const lease = this.#lease
    if (lease.ended || lease.loss !== undefined) return 'lost'
    const now = this.#engine.clock.now()
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
    const { loss, lastError } = this.#lease
    if (loss !== undefined) this.lose(loss, lastError)
    return health
  }

  /** Why the grant is lost, once `check` returns lost. */
  get loss(): { readonly why: LossCause; readonly cause: unknown } {
    const { loss, end, lastError } = this.#lease
    const why = loss ?? (end === 'released' ? undefined : end) ?? 'taken'
    return { why, cause: why === 'expired' ? lastError : undefined }
  }

  /** May the store still carry out a renewal for less than `ttl` ms, later than all that were answered? */
  mayShortenTo(ttl: number): boolean {
    return this.#lease.mayShortenTo(ttl)
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
      const { action } = plan(this.#lease, this.#engine.clock.now())
      if (action === undefined) return this.#schedule()
      this.#perform(action)
    }
  }

  /** Each of them changes the plan. */
  #perform(action: LeaseAction): void {
    if (action === 'lose') this.checkNow()
    else if (action === 'report-doubt') this.#reportDoubt()
    else this.#renewals.renew()
  }

  /**
   * One explicit renewal. Resolves with false when the store replies that the grant is lost; rejects when the outcome
   * is unknown, and the old ttl stays then.
   */
  renewNow(ttl: number): Promise<boolean> {
    return this.#renewals.extend(ttl)
  }

  get #renewals(): Renewals {
    this.#lazyRenewals ??= new Renewals(this.#engine, this.#lease, this)
    return this.#lazyRenewals
  }

  lose(because: LossCause, cause?: unknown): void {
    if (this.#lease.ended) return
    const why = this.#lease.loss ?? because
    this.#end(why)
    this.hooks?.onLost(why, cause)
    const at = releaseAt(this.#lease, why)
    const releaseGrant = () => void this.release()
    if (at === 'now') releaseGrant()
    else this.#engine.schedule(Math.max(at, this.#engine.clock.now()), releaseGrant)
  }

  /**
   * Releases the grant. Rejects when the store did not reply; the grant is over here in any case, and the release is
   * repeated in the background for as long as the grant could still block others.
   */
  release(): Promise<ReleaseResult> {
    if (!this.#lease.ended) this.#end('released')
    return this.#engine.releases.send(this)
  }

  /** Another process looks after the grant from now on. */
  detach(): void {
    this.#end('released')
    this.grant.detach?.()
  }

  #end(how: LossCause | 'released'): void {
    this.#lease.end = how
    this.#lazyRenewals?.abort()
    if (this.#onStoreLoss !== undefined) this.#storeLoss?.removeEventListener('abort', this.#onStoreLoss)
    this.#engine.timers.remove(this)
  }

  replied(validUntil: number | undefined): void {
    const lease = this.#lease
    if (lease.ended) return
    if (validUntil === undefined && this.checkNow() !== 'lost') this.lose('taken')
    // The reply may have waited for a machine that slept: do not report a renewal that has already expired.
    if (this.checkNow() === 'lost') return
    lease.lastError = undefined
    lease.overdueAt = Number.POSITIVE_INFINITY
    if (lease.autoRenew) planRenewal(lease, this.#engine.clock.now())
    this.#schedule()
    this.hooks?.onRenewed()
  }

  renewalFailed(error: unknown): void {
    const lease = this.#lease
    if (lease.ended) return
    lease.lastError = error
    planRetry(lease, this.#engine.clock.now(), this.#engine.random())
    this.#reportDoubt()
    this.#schedule()
  }

  extended(): void {
    if (this.#lease.ended) return
    planAfterExtend(this.#lease, this.#engine.clock.now())
    this.#schedule()
  }

  #reportDoubt(): void {
    const lease = this.#lease
    if (lease.doubtReported || lease.ended) return
    lease.doubtReported = true
    this.hooks?.onDoubtful(lease.lastError)
  }

  #watchLoss(loss: LossSignal): void {
    this.#storeLoss = loss
    this.#onStoreLoss = () => {
      const why = lossAt(this.#lease, this.#engine.clock.now()) ?? 'revoked'
      this.lose(why, why === 'revoked' ? loss.reason : this.#lease.lastError)
    }
    if (loss.aborted) return this.#onStoreLoss()
    loss.addEventListener('abort', this.#onStoreLoss)
  }

  /** Sets the next moment to act: renew, give up a try, report doubtful, report lost. */
  #schedule(): void {
    const lease = this.#lease
    if (lease.ended) return
    const { nextAt } = plan(lease, this.#engine.clock.now())
    lease.rememberUntil()
    this.#engine.timers.set(this, nextAt)
  }
}
