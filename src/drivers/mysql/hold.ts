/** One grant of the strategy `row`, from its statement to the answer to its release. */
import { deadline } from '../../core/clock.js'
import type { Claim, Grant, ReleaseResult } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { LossNotice, type LossSignal } from '../../core/loss-notice.js'
import { shared } from '../../core/mode.js'
import { quote } from '../../core/name.js'
import { tokenReserve } from '../../core/token.js'
import type { Reply } from './connections.js'
import { toFailure } from './failure.js'
import type { Renewer } from './renewer.js'
import type { Runtime } from './runtime.js'
import * as sql from './sql.js'

export interface HoldProof {
  readonly token: number
  readonly validUntil: number
  /** When the hold began, in µs by the server's clock; only sharers need it. */
  readonly since: number
  /** Settles when its queue entry, which was ahead of those behind it, is gone. */
  readonly left?: Promise<void>
}

export class Hold implements Grant {
  readonly token: number
  validUntil: number
  readonly #runtime: Runtime
  readonly #renewer: Renewer
  readonly #since: number
  readonly #left: Promise<void> | undefined
  readonly #ended: () => void
  #claim: Claim
  #last: number
  #asked = false
  #downgrading = false
  #gone: LossNotice | undefined

  /** @param ended called when the grant has been released */
  constructor(runtime: Runtime, renewer: Renewer, claim: Claim, proven: HoldProof, ended: () => void) {
    this.#runtime = runtime
    this.#renewer = renewer
    this.#claim = claim
    this.#since = proven.since
    this.#left = proven.left
    this.#ended = ended
    this.token = proven.token
    this.#last = proven.token
    this.validUntil = proven.validUntil
  }

  get lost(): LossSignal {
    this.#gone ??= new LossNotice()
    return this.#gone
  }

  /** Called when another life of the server answers. @throws when it cannot be known whether the hold is still there */
  async verify(): Promise<void> {
    const left = this.validUntil - this.#runtime.clock.now()
    if (this.#asked || left <= 0) return
    const { name, mode } = this.#claim
    const { held } = await this.#renewer.verify(this.#held(), left)
    if (held || this.#asked) return
    // The hold may exist in the mode it is changing to.
    if (this.#downgrading || this.#claim.mode !== mode) throw new Error('asked while it was downgraded')
    this.validUntil = Number.NEGATIVE_INFINITY
    this.#gone ??= new LossNotice()
    this.#gone.abort(
      new BackendError('mysql', `the server does not know the hold of ${quote(name)} any more`),
    )
  }

  async renew(ttl: number): Promise<number | undefined> {
    const shorter = ttl < this.#claim.ttl
    this.#claim = { ...this.#claim, ttl }
    const renewed = shorter ? this.#renewer.shorten(this.#held()) : this.#renewer.renew(this.#held())
    const { held, sent } = await this.#onRenewed(renewed)
    if (!held) return undefined
    this.validUntil = deadline(sent, ttl)
    return this.validUntil
  }

  async release(): Promise<ReleaseResult> {
    const again = this.#asked
    this.#asked = true
    const { id } = await this.#ask(sql.release(this.#runtime.tables, this.#claim, this.#last))
    this.#ended()
    await this.#left
    this.#runtime.waiters.wakeFirst(this.#claim.name)
    if (id !== 0) return 'released'
    // The first release may have been executed and its reply lost. While nobody else can have taken the lock, "not yours" can
    // only mean that.
    return again && this.#runtime.clock.now() < this.validUntil ? 'already-released' : 'lost'
  }

  nextReservedToken(): number | undefined {
    if (this.#claim.mode.kind !== 'exclusive' || this.#last - this.token >= tokenReserve) return undefined
    this.#last++
    return this.#last
  }

  detach(): void {
    this.#ended()
  }

  async downgrade(): Promise<void> {
    this.#downgrading = true
    const { id } = await this.#ask(sql.downgrade(this.#runtime.tables, this.#held(), this.#last)).finally(
      () => {
        this.#downgrading = false
      },
    )
    if (id === 0) throw new BackendError('mysql', `cannot downgrade ${this.#claim.name}: it is not held`)
    this.#claim = { ...this.#claim, mode: shared }
  }

  #held(): sql.HoldRow {
    return { claim: this.#claim, token: this.#last, since: this.#since, by: this.#runtime.by }
  }

  #ask(statement: string): Promise<Reply> {
    return this.#onRenewed(this.#runtime.execute(statement, true))
  }

  async #onRenewed<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer
    } catch (error) {
      if (this.#asked && this.#runtime.clock.now() >= this.validUntil) this.#ended()
      throw toFailure(error).error
    }
  }
}
