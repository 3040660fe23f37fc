/** The grants of `memory()`: a hold in the store, with the tokens reserved for local hand-overs. */
import { type Clock, deadline } from '../../core/clock.js'
import type { Claim, Grant, ReleaseResult } from '../../core/driver.js'
import type { LossSignal } from '../../core/loss-notice.js'
import type { Store } from './store.js'
import type { Hold } from './table.js'

export function createGrant(store: Store, clock: Clock, claim: Claim, hold: Hold, validUntil: number): Grant {
  const Kind = hold.mode.kind === 'exclusive' ? ExclusiveGrant : MemoryGrant
  return new Kind(store, clock, claim, hold, validUntil)
}

/** A class, because an object literal with closures costs as much as the whole rest of an acquisition. */
class MemoryGrant implements Grant {
  readonly token: number
  protected readonly store: Store
  protected readonly name: string
  protected readonly attempt: string
  /** The greatest token used so far. */
  protected last: number
  readonly #clock: Clock
  #provenUntil: number

  constructor(store: Store, clock: Clock, { name, attempt }: Claim, hold: Hold, validUntil: number) {
    this.store = store
    this.name = name
    this.attempt = attempt
    this.token = hold.token
    this.last = hold.token
    this.#provenUntil = validUntil
    this.#clock = clock
  }

  get lost(): LossSignal {
    return this.store.lossSignal(this.name, this.attempt)
  }

  get validUntil(): number {
    return this.store.holds(this.name, this.attempt) ? this.#provenUntil : Number.NEGATIVE_INFINITY
  }

  async renew(ttl: number): Promise<number | undefined> {
    const sent = this.#clock.now()
    if (this.store.renew(this.name, this.attempt, ttl) === undefined) return undefined
    this.#provenUntil = deadline(sent, ttl)
    return this.#provenUntil
  }

  release(): Promise<ReleaseResult> {
    return Promise.resolve(this.store.release(this.name, this.attempt, this.last))
  }
}

class ExclusiveGrant extends MemoryGrant {
  #upTo: number
  #onContended: (() => void) | undefined

  constructor(store: Store, clock: Clock, claim: Claim, hold: Hold, validUntil: number) {
    super(store, clock, claim, hold, validUntil)
    this.#upTo = hold.upTo
  }

  nextReservedToken(): number | undefined {
    if (this.last >= this.#upTo) return undefined
    this.last += 1
    return this.last
  }

  get onContended(): (() => void) | undefined {
    return this.#onContended
  }

  /** Only a grant that is cached sets it, so nobody else pays for it. */
  set onContended(listener: (() => void) | undefined) {
    this.#onContended = listener
    if (listener !== undefined) this.store.listen(this.attempt, listener)
  }

  contended(): boolean {
    return this.store.contended(this.name)
  }

  async downgrade(): Promise<void> {
    this.#upTo = this.last
    this.store.downgrade(this.name, this.attempt, this.last)
  }
}
