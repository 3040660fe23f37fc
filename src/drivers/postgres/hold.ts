/** One grant of the strategy `row`, from its first proof to the answer to its release. */
import { deadline } from '../../core/clock.js'
import type { Claim, Grant, ReleaseResult } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { LossNotice, type LossSignal } from '../../core/loss-notice.js'
import { quote } from '../../core/name.js'
import { tokenReserve } from '../../core/token.js'
import { Hints } from '../kit/hints.js'
import { RenewalOrder } from '../kit/renewal-order.js'
import { toFailure } from './failure.js'
import type { RenewResult } from './renewer.js'
import type { Runtime } from './runtime.js'

export interface HoldProof {
  readonly token: number
  readonly validUntil: number
  /** True if others were waiting for the name when it was granted. */
  readonly contended: boolean
  /** True if the process was listening when it asked, so that it would have been notified of later waiters. */
  readonly reachable: boolean
}

export class Hold implements Grant {
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #subscriberEpoch: number
  readonly token: number
  validUntil: number
  #last: number
  #contendedSeen: boolean
  readonly #reachable: boolean
  /** Does the server know where to notify this hold? */
  #recorded: boolean
  #asked = false
  #revoked: LossNotice | undefined
  #hints: Hints | undefined
  #renewals: RenewalOrder | undefined

  constructor(runtime: Runtime, claim: Claim, proven: HoldProof) {
    this.#runtime = runtime
    this.#claim = claim
    this.#subscriberEpoch = runtime.subscriber.epoch
    this.token = proven.token
    this.#last = proven.token
    this.validUntil = proven.validUntil
    this.#contendedSeen = proven.contended
    this.#reachable = proven.reachable
    this.#recorded = proven.reachable
    runtime.holds.set(claim.attempt, this)
    // The channel came up while the answer was on its way. If this fails, the next renewal records it.
    if (!this.#recorded && runtime.subscriber.channel !== null) void this.onRenewed().catch(() => undefined)
  }

  get lost(): LossSignal {
    this.#revoked ??= new LossNotice()
    return this.#revoked
  }

  /** Handles a notification: somebody waits, or an operator took the lock. The hold asks the server before it believes the latter. */
  onNotification(what: 'contended' | 'taken'): void {
    if (what === 'contended') this.#contendedSeen = true
    else {
      this.#hints ??= new Hints(this.#runtime.clock, () => {
        const looked = () => this.#hints?.queryDone()
        this.checkNow().then(looked, looked)
      })
      this.#hints.notify()
    }
  }

  /** Asks whether the server still has this hold. Rejects when that cannot be known; the next renewal will find out. */
  async checkNow(): Promise<void> {
    const { name, attempt } = this.#claim
    const { held } = await this.#runtime.renewer.renew(name, attempt, 0)
    if (!held) this.#gone(`the hold of ${quote(name)} was taken by force`)
  }

  /**
   * For when another server may be answering, or the channel is up again: asks as `look()`, and has the hold last at least until `validUntil`.
   * Rejects as `look()`.
   */
  async onRenewed(): Promise<void> {
    const { name } = this.#claim
    const left = this.validUntil - this.#runtime.clock.now()
    if (left <= 0 || this.#asked) return
    const { held } = await this.#renewed(-left)
    if (!held && !this.#asked) this.#gone(`the server does not know the hold of ${quote(name)} any more`)
  }

  #gone(why: string): void {
    if (!this.#runtime.holds.has(this.#claim.attempt)) return
    this.validUntil = Number.NEGATIVE_INFINITY
    this.drop()
    this.#revoked ??= new LossNotice()
    this.#revoked.abort(new BackendError('postgres', why))
  }

  /** Granted while nobody listened, it tells the server where to notify it as soon as somebody does. */
  async #renewed(ttl: number, order?: number): Promise<RenewResult> {
    const { renewer, subscriber } = this.#runtime
    const { name, attempt } = this.#claim
    const channel = this.#recorded ? null : subscriber.channel
    const answer = await renewer.renew(name, attempt, ttl, channel, order)
    if (channel !== null) this.#recorded = true
    return answer
  }

  async renew(ttl: number): Promise<number | undefined> {
    this.#renewals ??= new RenewalOrder(this.#claim.ttl)
    const order = this.#renewals.sent(ttl)
    const { held, sent } = await this.#onReleased(this.#renewed(order === undefined ? -ttl : ttl, order))
    if (!held) return undefined
    this.validUntil = deadline(sent, ttl)
    return this.validUntil
  }

  async release(): Promise<ReleaseResult> {
    const { connections, calls, settings, clock } = this.#runtime
    const { name, attempt } = this.#claim
    const before = this.#asked
    this.#asked = true
    const values = [name, attempt, this.#last]
    const { answer, retried } = await this.#onReleased(
      connections.execute(calls.release, values, settings.commandTimeout),
    )
    this.drop()
    if (answer === 1) return 'released'
    // The statement was sent again after the connection broke: the first one may have released the hold.
    if (answer === 2) return retried && !before ? 'released' : 'already-released'
    // The server has forgotten the attempt. While nobody else can have taken the lock, "not yours" can only mean that.
    return (before || retried) && clock.now() < this.validUntil ? 'already-released' : 'lost'
  }

  nextReservedToken(): number | undefined {
    if (this.#claim.mode.kind !== 'exclusive' || this.#last - this.token >= tokenReserve) return undefined
    this.#runtime.subscriber.open()
    this.#last++
    return this.#last
  }

  contended(): boolean {
    return this.#contendedSeen || !this.#reachable || this.#subscriberEpoch !== this.#runtime.subscriber.epoch
  }

  async downgrade(): Promise<void> {
    const { connections, calls } = this.#runtime
    const { name, attempt } = this.#claim
    const { answer } = await this.#onReleased(
      connections.execute(calls.downgrade, [name, attempt, this.#last]),
    )
    if (answer === 0) throw new BackendError('postgres', `cannot downgrade ${name}: it is not held`)
  }

  /** Removes the hold and its timers. */
  drop(): void {
    this.#hints?.stop()
    this.#runtime.holds.delete(this.#claim.attempt)
  }

  async #onReleased<T>(asked: Promise<T>): Promise<T> {
    try {
      return await asked
    } catch (error) {
      if (this.#runtime.clock.now() >= this.validUntil) this.drop()
      throw toFailure(error).error
    }
  }
}
