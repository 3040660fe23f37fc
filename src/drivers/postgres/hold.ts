/** One grant of the strategy `row`, from its first proof to the answer to its release. */
import { deadline } from '../../core/clock.js'
import type { Claim, GaveBack, Grant } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
import { tokenReserve } from '../../core/token.js'
import { Hints } from '../kit/hints.js'
import { troubleOf } from './failure.js'
import type { Desk } from './runtime.js'

export interface Proven {
  readonly token: number
  readonly validUntil: number
  /** True if others were waiting for the name when it was granted. */
  readonly contended: boolean
  /** True if the process was listening when it asked, so that it would have been notified of later waiters. */
  readonly reachable: boolean
}

export class Hold implements Grant {
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #earEpoch: number
  readonly token: number
  validUntil: number
  #last: number
  #heard: boolean
  readonly #reachable: boolean
  #asked = false
  #revoked: AbortController | undefined
  #hints: Hints | undefined

  constructor(desk: Desk, claim: Claim, proven: Proven) {
    this.#desk = desk
    this.#claim = claim
    this.#earEpoch = desk.ear.epoch
    this.token = proven.token
    this.#last = proven.token
    this.validUntil = proven.validUntil
    this.#heard = proven.contended
    this.#reachable = proven.reachable
    desk.holds.set(claim.attempt, this)
  }

  get lost(): AbortSignal {
    this.#revoked ??= new AbortController()
    return this.#revoked.signal
  }

  /** Handles a notification: somebody waits, or an operator took the lock. The hold asks the server before it believes the latter. */
  hear(what: 'contended' | 'taken'): void {
    if (what === 'contended') this.#heard = true
    else {
      this.#hints ??= new Hints(this.#desk.clock, () => {
        const looked = () => this.#hints?.queryDone()
        this.look().then(looked, looked)
      })
      this.#hints.notify()
    }
  }

  /** Asks whether the server still has this hold. Rejects when that cannot be known; the next renewal will find out. */
  async look(): Promise<void> {
    const { name, attempt } = this.#claim
    const { held } = await this.#desk.renewer.renew(name, attempt, 0)
    if (!held) this.#gone(`the hold of ${quote(name)} was taken by force`)
  }

  /** For when another server may be answering: asks as `look()`, and has the hold last at least until `validUntil`. Rejects as `look()`. */
  async keep(): Promise<void> {
    const { name, attempt } = this.#claim
    const left = this.validUntil - this.#desk.clock.now()
    if (left <= 0 || this.#asked) return
    const { held } = await this.#desk.renewer.renew(name, attempt, -left)
    if (!held && !this.#asked) this.#gone(`the server does not know the hold of ${quote(name)} any more`)
  }

  #gone(why: string): void {
    if (!this.#desk.holds.has(this.#claim.attempt)) return
    this.validUntil = Number.NEGATIVE_INFINITY
    this.drop()
    this.#revoked ??= new AbortController()
    this.#revoked.abort(new BackendError('postgres', why))
  }

  async renew(ttl: number): Promise<number | undefined> {
    const { name, attempt } = this.#claim
    const { held, sent } = await this.#told(this.#desk.renewer.renew(name, attempt, ttl))
    if (!held) return undefined
    this.validUntil = deadline(sent, ttl)
    return this.validUntil
  }

  async release(): Promise<GaveBack> {
    const { lane, calls, settings, clock } = this.#desk
    const { name, attempt } = this.#claim
    const before = this.#asked
    this.#asked = true
    const values = [name, attempt, this.#last]
    const { answer, again } = await this.#told(lane.ask(calls.release, values, settings.commandTimeout))
    this.drop()
    if (answer === 1) return 'released'
    // The statement was sent again after the connection broke: the first one may have released the hold.
    if (answer === 2) return again && !before ? 'released' : 'already-released'
    // The server has forgotten the attempt. While nobody else can have taken the lock, "not yours" can only mean that.
    return (before || again) && clock.now() < this.validUntil ? 'already-released' : 'lost'
  }

  pass(): number | undefined {
    if (this.#claim.mode.kind !== 'exclusive' || this.#last - this.token >= tokenReserve) return undefined
    this.#desk.ear.open()
    this.#last++
    return this.#last
  }

  contended(): boolean {
    return this.#heard || !this.#reachable || this.#earEpoch !== this.#desk.ear.epoch
  }

  async downgrade(): Promise<void> {
    const { lane, calls } = this.#desk
    const { name, attempt } = this.#claim
    const { answer } = await this.#told(lane.ask(calls.downgrade, [name, attempt, this.#last]))
    if (answer === 0) throw new BackendError('postgres', `cannot downgrade ${name}: it is not held`)
  }

  /** Removes the hold and its timers. */
  drop(): void {
    this.#hints?.stop()
    this.#desk.holds.delete(this.#claim.attempt)
  }

  async #told<T>(asked: Promise<T>): Promise<T> {
    try {
      return await asked
    } catch (error) {
      if (this.#desk.clock.now() >= this.validUntil) this.drop()
      throw troubleOf(error).error
    }
  }
}
