/**
 * What the driver gave: one grant, from the first proof to the answer of its release.
 *
 * A grant that came by push holds only for a short *claim*, so that a process that never got the message blocks nobody for
 * long. The core renews it early, because it sees how little is left; where it does not (`autoRenew: false`), or where its
 * try is not answered, the grant extends itself once to the full ttl, from half of the claim on. A section shorter than
 * that sends nothing: hand-over costs the two commands acquire and release.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, GaveBack, Grant } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { tokenReserve } from '../../core/token.js'
import { micros } from './ask.js'
import type { Reply } from './client.js'
import type { Desk } from './desk.js'
import type { Keys } from './keys.js'
import type { Flight } from './link.js'
import type { Script } from './scripts/frame.js'
import { downgrade, release, renew } from './scripts/verbs.js'
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
  readonly #keys: Keys
  readonly #earEpoch: number
  readonly token: number
  validUntil: number
  #last: number
  #heard: boolean
  #reachable: boolean
  /** Undefined once the whole ttl has been proven. */
  #disarm: (() => void) | undefined
  #asked = false

  constructor(desk: Desk, claim: Claim, keys: Keys, proven: Proven) {
    this.#desk = desk
    this.#claim = claim
    this.#keys = keys
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
    const desk = this.#desk
    const args = [this.#claim.attempt, micros(ttl)]
    const [reply, flight] = await this.#answer(renew, args)
    if (reply !== 1) return undefined
    if (flight.replicas < desk.settings.replicas) throw desk.tooFew(flight.replicas)
    // A server that has forgotten and been told again is not the one that granted it, but it has just said "yours".
    this.#disarm?.()
    this.#disarm = undefined
    // An answer to an earlier try may come after one to a later: the later deadline stands.
    this.validUntil = Math.max(this.validUntil, deadline(flight.sent, ttl))
    return this.validUntil
  }

  async release(): Promise<GaveBack> {
    this.#disarm?.()
    this.#disarm = undefined
    const { attempt } = this.#claim
    const again = this.#asked
    this.#asked = true
    const [reply, { broken }] = await this.#answer(release, [attempt, String(this.#last)])
    this.#desk.holds.delete(attempt)
    if (reply === 1) return 'released'
    // It may have been carried out the first time, and others may have held and released since. While it is proven that
    // nobody else could have taken it, "not yours" can only mean that.
    const before = (again || broken) && this.#desk.clock.now() < this.validUntil
    return reply === 2 || before ? 'already-released' : 'lost'
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
    const [reply] = await this.#answer(downgrade, [this.#claim.attempt, String(this.#last)])
    if (reply === '0') throw new BackendError('redis', `cannot downgrade ${this.#claim.name}: it is not held`)
  }

  detach(): void {
    this.drop()
  }

  /** No timer of it is left. */
  drop(): void {
    this.#disarm?.()
    this.#disarm = undefined
    this.#desk.holds.delete(this.#claim.attempt)
  }

  #extendAt(wait: number, again: number): void {
    const { clock } = this.#desk
    this.#disarm = clock.at(
      clock.now() + wait,
      () => {
        this.#extendAt(again, again)
        if (clock.now() < this.validUntil) this.renew(this.#claim.ttl).catch(() => undefined)
        else this.#disarm?.()
      },
      { ref: false },
    )
  }

  #answer(script: Script, args: readonly string[]): Promise<readonly [Reply, Flight]> {
    return new Promise((resolve, reject) => {
      this.#desk.link.ask(script, this.#keys, args, {
        answered: (reply, flight) => resolve([reply, flight]),
        failed: (error) => {
          if (this.#desk.clock.now() >= this.validUntil) this.drop()
          reject(troubleOf(error, this.#desk.link.connection.ended).error)
        },
      })
    })
  }
}
