/** What the driver gave: one grant of the `row` strategy, from its statement to the answer of its release. */
import { deadline } from '../../core/clock.js'
import type { Claim, GaveBack, Grant } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { shared } from '../../core/mode.js'
import { tokenReserve } from '../../core/token.js'
import type { Desk } from './desk.js'
import type { Reply } from './link.js'
import type { Renewer } from './renewer.js'
import * as sql from './sql.js'
import { troubleOf } from './trouble.js'

export interface Proven {
  readonly token: number
  readonly validUntil: number
  /** When it began, in µs by the server's clock; only sharers need it. */
  readonly since: number
  /** Its place in line is gone, which stood before those behind it. */
  readonly left?: Promise<void>
}

export class Hold implements Grant {
  readonly token: number
  validUntil: number
  readonly #desk: Desk
  readonly #renewer: Renewer
  readonly #since: number
  readonly #left: Promise<void> | undefined
  readonly #ended: () => void
  #claim: Claim
  #last: number
  #asked = false

  /** @param ended is called when it was given back */
  constructor(desk: Desk, renewer: Renewer, claim: Claim, proven: Proven, ended: () => void) {
    this.#desk = desk
    this.#renewer = renewer
    this.#claim = claim
    this.#since = proven.since
    this.#left = proven.left
    this.#ended = ended
    this.token = proven.token
    this.#last = proven.token
    this.validUntil = proven.validUntil
  }

  async renew(ttl: number): Promise<number | undefined> {
    this.#claim = { ...this.#claim, ttl }
    const { held, sent } = await this.#told(this.#renewer.renew(this.#held()))
    if (!held) return undefined
    // An answer to an earlier try may come after one to a later: the later deadline stands.
    this.validUntil = Math.max(this.validUntil, deadline(sent, ttl))
    return this.validUntil
  }

  async release(): Promise<GaveBack> {
    const again = this.#asked
    this.#asked = true
    const { id } = await this.#ask(sql.release(this.#desk.tables, this.#claim, this.#last))
    this.#ended()
    await this.#left
    if (id !== 0) return 'released'
    // It may have been carried out the first time, when its answer was lost. While it is proven that nobody else could have
    // taken it, "not yours" can only mean that.
    return again && this.#desk.clock.now() < this.validUntil ? 'already-released' : 'lost'
  }

  pass(): number | undefined {
    if (this.#claim.mode.kind !== 'exclusive' || this.#last - this.token >= tokenReserve) return undefined
    this.#last++
    return this.#last
  }

  detach(): void {
    this.#ended()
  }

  async downgrade(): Promise<void> {
    const { id } = await this.#ask(sql.downgrade(this.#desk.tables, this.#held(), this.#last))
    if (id === 0) throw new BackendError('mysql', `cannot downgrade ${this.#claim.name}: it is not held`)
    this.#claim = { ...this.#claim, mode: shared }
  }

  #held(): sql.Held {
    return { claim: this.#claim, token: this.#last, since: this.#since, by: this.#desk.by }
  }

  #ask(statement: string): Promise<Reply> {
    return this.#told(this.#desk.ask(statement, true))
  }

  async #told<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } catch (error) {
      if (this.#asked && this.#desk.clock.now() >= this.validUntil) this.#ended()
      throw troubleOf(error).error
    }
  }
}
