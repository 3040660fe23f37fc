/**
 * What the driver gave: one grant, from the first proof to the answer of its release.
 *
 * A grant that came by push holds only for a short *claim*, so that a process that never got the message blocks nobody for
 * long. The core renews it early, because it sees how little is left; where it does not (`autoRenew: false`), or where its
 * try is not answered, the grant extends itself once to the full ttl, from half of the claim on. A section shorter than
 * that sends nothing: hand-over costs two statements, acquire and release.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, GaveBack, Grant } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { tokenReserve } from '../../core/token.js'
import type { Desk } from './desk.js'
import { troubleOf } from './trouble.js'

export interface Proven {
  readonly token: number
  readonly validUntil: number
  /** Did others wait for the name when it was granted? */
  readonly contended: boolean
  /** Was the process reachable when it asked, so that it would have heard of anybody who came later? */
  readonly reachable: boolean
  /** Only until then by a push; undefined: for the whole ttl. */
  readonly claim?: number
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
  /** Undefined once the whole ttl has been proven. */
  #disarm: (() => void) | undefined
  #asked = false

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
    if (proven.claim !== undefined) this.#extendAt(proven.claim / 2, proven.claim / 4)
  }

  /** A push: somebody waits, or an operator took it. */
  hear(what: 'contended' | 'taken'): void {
    if (what === 'contended') this.#heard = true
    else this.validUntil = Number.NEGATIVE_INFINITY
  }

  async renew(ttl: number): Promise<number | undefined> {
    const { name, attempt } = this.#claim
    const { held, sent } = await this.#told(this.#desk.renewer.renew(name, attempt, ttl))
    if (!held) return undefined
    this.#stop()
    // An answer to an earlier try may come after one to a later: the later deadline stands.
    this.validUntil = Math.max(this.validUntil, deadline(sent, ttl))
    return this.validUntil
  }

  async release(): Promise<GaveBack> {
    this.#stop()
    const { lane, calls, settings, holds, clock } = this.#desk
    const { name, attempt } = this.#claim
    const before = this.#asked
    this.#asked = true
    const values = [name, attempt, this.#last]
    const { answer, again } = await this.#told(lane.ask(calls.release, values, settings.commandTimeout))
    holds.delete(attempt)
    if (answer === 1) return 'released'
    // Sent again after the connection broke: the first may have done it.
    if (answer === 2) return again && !before ? 'released' : 'already-released'
    // Forgotten by now; while it is proven that nobody else could have taken it, "not yours" can only mean that.
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

  /** No timer of it is left. */
  drop(): void {
    this.#stop()
    this.#desk.holds.delete(this.#claim.attempt)
  }

  #stop(): void {
    this.#disarm?.()
    this.#disarm = undefined
  }

  #extendAt(wait: number, again: number): void {
    const { clock } = this.#desk
    const extend = () => {
      this.#extendAt(again, again)
      if (clock.now() < this.validUntil) this.renew(this.#claim.ttl).catch(() => undefined)
      else this.#stop()
    }
    this.#disarm = clock.at(clock.now() + wait, extend, { ref: false })
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
