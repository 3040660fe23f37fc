/**
 * Keeps one grant alive, and knows at every moment whether it is.
 * Long because it is one state machine: read all transitions before you change one.
 *
 * ```
 *            renewal overdue              validUntil passed (from the clock, not from a timer)
 *   held ───────────────────► doubtful ─────────────────────────────────────────────► lost: expired
 *    ▲                           │        the store replies "not yours" / reports the loss
 *    └───────── renewed ─────────┘       ────────────────────────────────────────────► lost: taken / revoked
 * ```
 * The watchdog tries a renewal after a third of the time left at each proof. A try may take a sixth of the ttl (at
 * least 50 ms); then the next one starts, so at least three fit into a ttl. Silence, time-outs and connection errors
 * only make the grant doubtful: the old deadline stands until it passes. A late reply to an earlier try still counts,
 * because it carries the deadline of its own request. Lost is final. For several renewals with different ttls see
 * `validity.ts`.
 *
 * After a loss by the clock or `maxHold` the watchdog releases the grant in the background, but not before the store would have let it expire:
 * the holder has only just been notified and may need those last milliseconds.
 *
 * A lock-delay is time of the grant that the holder does not get. The watchdog asks the store for `ttl + lockDelay`
 * and ends the lease `lockDelay` before the grant, so any end but a release leaves the lock taken for that much
 * longer. The store need not know of the delay, and the delay survives whatever the grant survives.
 */
import { maxClockDrift, safetyMargin, ttlWithDelay } from './clock.js'
import type { Claim, Grant, ReleaseResult } from './driver.js'
import type { Engine } from './engine.js'
import { BackendError, type LossCause, UnsupportedError } from './errors.js'
import { quote } from './name.js'
import type { Terms } from './options.js'
import type { Entry } from './timer-queue.js'
import { type Asked, Validity } from './validity.js'
import type { LazyTimer } from './wait-deadline.js'

export type LeaseHealth = 'held' | 'doubtful' | 'lost'

export interface WatchdogHooks {
  onRenewed(): void
  onDoubtful(error: unknown): void
  onLost(why: LossCause, cause?: unknown): void
}

export class Watchdog implements Entry, LazyTimer {
  slot: number | undefined
  readonly grant: Grant
  readonly claim: Claim
  ttl: number
  readonly lockDelay: number
  autoRenew: boolean
  hooks: WatchdogHooks | undefined
  /** Set once the grant has ended, by loss or by release. */
  ended: LossCause | 'released' | undefined
  readonly #engine: Engine
  /** A renewal without a reply by then makes the grant doubtful. */
  #overdueAt = Number.POSITIVE_INFINITY
  #renewAt = 0
  /** Has this doubt been reported? */
  #told = false
  #armed = false
  /** Undefined until the first renewal is sent. */
  #validity: Validity | undefined
  /** The automatic renewal under way. */
  #trying: AbortController | undefined
  #tryEndsAt = 0
  /** The renewal under way, automatic or not; never rejects. */
  #underWay: Promise<void> | undefined
  #extending = 0
  #lastError: unknown
  #maxHoldAt = Number.POSITIVE_INFINITY
  #onNotice: (() => void) | undefined
  /** The newest deadline known: a grant whose time was up when the store dropped it has expired, not been revoked. */
  #knownUntil = Number.POSITIVE_INFINITY
  /** A check has reported the loss: it is final, and listeners are notified at the next tick. */
  #seen: LossCause | undefined

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
    this.#rememberUntil()
    if (autoRenew) this.#plan(now)
    engine.lazyTimers.add(this)
  }

  get isOver(): boolean {
    return this.ended !== undefined
  }

  /** Still held after the current microtasks: only now is the grant worth an entry in the timetable. */
  arm(): void {
    this.#armed = true
    // Most grants are released before this point, and listening for a loss has a cost.
    if (this.grant.lost !== undefined) this.#heed(this.grant.lost)
    this.#schedule()
  }

  /** A renewal with the caller's own ttl is under way: its outcome concerns only the present holder. */
  get extending(): boolean {
    return this.#extending > 0
  }

  /** Clock reading until which the store keeps the grant. */
  get #kept(): number {
    const { validUntil } = this.grant
    return this.#validity === undefined ? validUntil : Math.min(validUntil, this.#validity.until)
  }

  /** Clock reading until which the holder may rely on it. */
  get #until(): number {
    return this.#kept - this.lockDelay
  }

  #rememberUntil(): number {
    const until = this.#until
    if (until > Number.NEGATIVE_INFINITY) this.#knownUntil = until
    return until
  }

  /** The requested ttl, or what the store can give of it. */
  get worth(): number {
    const { maxTtl = Number.POSITIVE_INFINITY } = this.grant
    return Math.max(0, Math.min(this.ttl, maxTtl - this.lockDelay))
  }

  get remaining(): number {
    return this.ended === undefined ? Math.max(0, this.#until - this.#engine.clock.now()) : 0
  }

  /** The state at this moment, computed from the clock, including an expiry that no timer has reported yet. Notifies nobody. */
  check(): LeaseHealth {
    if (this.ended !== undefined) return 'lost'
    const now = this.#engine.clock.now()
    if (this.#seen === undefined) {
      this.#seen = this.#lossAt(now)
      if (this.#seen === undefined) return now >= this.#overdueAt ? 'doubtful' : 'held'
      if (this.#armed) this.#engine.timers.set(this, now)
    }
    return 'lost'
  }

  /** The same after a check of the boot clock: a machine that has just woken up has lost what expired meanwhile. Reports a loss. */
  settle(): LeaseHealth {
    this.#engine.clock.noticeSleep()
    const proof = this.check()
    if (this.#seen !== undefined) this.lose(this.#seen, this.#lastError)
    return proof
  }

  /** Why the grant is lost, once `proof` returns lost. */
  get loss(): { readonly why: LossCause; readonly cause: unknown } {
    const why = this.#seen ?? (this.ended === 'released' ? undefined : this.ended) ?? 'taken'
    return { why, cause: why === 'expired' ? this.#lastError : undefined }
  }

  #lossAt(now: number): LossCause | undefined {
    const until = this.#until
    if (now < until) return now >= this.#maxHoldAt ? 'max-hold' : undefined
    return until === Number.NEGATIVE_INFINITY && now < this.#knownUntil ? 'revoked' : 'expired'
  }

  /** From now on the grant is lost at `at`, however healthy. */
  limit(at: number): void {
    if (this.#maxHoldAt === at) return
    this.#maxHoldAt = at
    if (this.#armed) this.#schedule()
  }

  onDue(now: number): void {
    if (this.settle() === 'lost') return
    if (this.#trying !== undefined && now >= this.#tryEndsAt) this.#giveUpTry(new Error('no answer in time'))
    if (now >= this.#overdueAt) this.#tellDoubtful()
    if (this.#underWay === undefined && this.autoRenew && now >= this.#renewAt) this.#try()
    this.#schedule()
  }

  /**
   * One explicit renewal. Resolves with false when the store replies that the grant is lost; rejects when the outcome
   * is unknown, and the old ttl stays then. Renewals are sent one after the other: of two under way at once, nobody
   * knows which the store carries out last.
   */
  async renewNow(ttl: number): Promise<boolean> {
    this.#extending++
    try {
      while (this.#underWay !== undefined) await this.#endOfTry()
      if (this.settle() === 'lost') return false
      const renewing = this.#renewOnce(ttl)
      const settled = () => {
        this.#underWay = undefined
      }
      this.#underWay = renewing.then(settled, settled)
      await renewing
      return this.ended === undefined
    } finally {
      this.#extending--
      if (this.ended === undefined) this.#afterExtending()
    }
  }

  /** The timetable ends a try, but does not keep the process alive for callers that await that. */
  async #endOfTry(): Promise<void> {
    const awake = this.#engine.clock.at(this.#tryEndsAt + safetyMargin, () => undefined)
    await this.#underWay
    awake()
  }

  async #renewOnce(ttl: number): Promise<void> {
    const { clock } = this.#engine
    const controller = new AbortController()
    const patience = tryTime(ttl)
    const stop = clock.at(Math.min(clock.now() + patience, this.#until), () =>
      controller.abort(this.#noAnswer(patience)),
    )
    try {
      await this.#renew(ttl, controller.signal, () => {
        this.ttl = ttl
      })
    } finally {
      stop()
    }
  }

  /** The deadline may have moved closer, and automatic renewals have waited. */
  #afterExtending(): void {
    const now = this.#engine.clock.now()
    this.#renewAt = Math.min(this.#renewAt, now + (this.#until - now) / 3)
    this.#schedule(now)
  }

  lose(because: LossCause, cause?: unknown): void {
    if (this.ended !== undefined) return
    const why = this.#seen ?? because
    this.#end(why)
    this.hooks?.onLost(why, cause)
    const giveBack = () => void this.release()
    if (why === 'taken' || why === 'revoked') giveBack()
    else {
      const late = ttlWithDelay(this.ttl, this.lockDelay) * maxClockDrift + safetyMargin
      this.#engine.schedule(Math.max(this.#kept + late, this.#engine.clock.now()), giveBack)
    }
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
    this.#trying?.abort()
    this.#trying = undefined
    if (this.#onNotice !== undefined) this.grant.lost?.removeEventListener('abort', this.#onNotice)
    this.#engine.timers.remove(this)
  }

  #noAnswer(patience: number): BackendError {
    const { driver } = this.#engine
    const what = `gave no answer about ${quote(this.claim.name)} within ${Math.round(patience)} ms`
    return new BackendError(driver.name, what)
  }

  #try(): void {
    const controller = new AbortController()
    this.#trying = controller
    this.#tryEndsAt = this.#engine.clock.now() + tryTime(this.worth)
    const settled = () => {
      if (this.#trying === controller) this.#trying = undefined
      this.#underWay = undefined
    }
    const failed = (error: unknown) => {
      if (this.#trying === controller) this.#giveUpTry(error)
      settled()
    }
    this.#underWay = this.#renew(this.ttl, controller.signal, settled).then(settled, failed)
  }

  /** One request. Rejects when it fails or is given up; a reply after that still counts. */
  async #renew(ttl: number, signal: AbortSignal, renewed: () => void): Promise<void> {
    const whole = ttlWithDelay(ttl, this.lockDelay)
    this.#validity ??= new Validity()
    const validity = this.#validity
    const asked = validity.ask(this.#engine.clock.now(), whole)
    const answer = this.grant.renew(whole, signal).then(
      (validUntil) => {
        if (!signal.aborted) renewed()
        if (validUntil !== undefined) validity.answered(asked)
        this.#answered(validUntil)
      },
      (error) => {
        this.#unanswered(asked, error)
        throw error
      },
    )
    try {
      await Promise.race([answer, rejection(signal)])
    } catch (error) {
      this.#tellFailed(error)
      throw error
    }
  }

  #tellFailed(error: unknown): void {
    if (this.ended !== undefined || wasRefused(error)) return
    const { events, driver } = this.#engine
    events.storeFailed(driver.name, this.claim.name, 'renew', error)
  }

  /** A request refused before it was sent changes nothing. The store may have carried out any other. */
  #unanswered(asked: Asked, error: unknown): void {
    if (wasRefused(error)) this.#validity?.refused(asked)
    else this.#validity?.failed(asked)
  }

  #answered(validUntil: number | undefined): void {
    if (this.ended !== undefined) return
    if (validUntil === undefined) this.lose('taken')
    // The reply may have waited for a machine that slept: do not report a renewal that has already expired.
    if (this.settle() === 'lost') return
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
    // A refused connection fails at once: a pause of a twentieth of the ttl, with jitter, avoids hammering a dead
    // store.
    this.#renewAt = now + Math.max(10, this.worth / 20) * (0.5 + this.#engine.random())
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
    this.#onNotice = () => {
      const why = this.#lossAt(this.#engine.clock.now()) ?? 'revoked'
      this.lose(why, why === 'revoked' ? notice.reason : this.#lastError)
    }
    if (notice.aborted) return this.#onNotice()
    notice.addEventListener('abort', this.#onNotice, { once: true })
  }

  /** Sets the next moment to act: renew, give up a try, report doubtful, report lost. */
  #schedule(now: number = this.#engine.clock.now()): void {
    if (this.ended !== undefined) return
    let next = Math.min(this.#rememberUntil(), this.#maxHoldAt)
    if (this.autoRenew) {
      if (this.#overdueAt === Number.POSITIVE_INFINITY) this.#plan(now)
      if (this.#trying !== undefined) next = Math.min(next, this.#tryEndsAt)
      // No automatic renewal runs beside an explicit one, whose end calls this again.
      else if (!this.extending) next = Math.min(next, this.#renewAt)
    }
    this.#engine.timers.set(this, next)
  }

  /** After a proof: renew at a third of the time left, on a common beat so that many leases renew in one round trip. */
  #plan(now: number): void {
    this.#told = false
    const left = this.#until - now
    const beat = this.worth / 12
    const at = now + left / 3
    this.#renewAt = left > this.worth / 2 ? Math.max(now, Math.floor(at / beat) * beat) : at
    this.#overdueAt = this.#renewAt + tryTime(this.worth)
  }
}

/** Nothing was sent: the grant cannot last as long as asked. */
function wasRefused(error: unknown): boolean {
  return error instanceof RangeError || error instanceof UnsupportedError
}

/** How long one renewal may take, in ms. */
export function tryTime(ttl: number): number {
  return Math.max(50, ttl / 6)
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )
}
