/**
 * What is known about one lease: the facts that `lease-plan.ts` decides from. The deadline follows at each moment from
 * the grant, whose `validUntil` the driver moves whenever it knows more, and from the renewals that were sent.
 */
import { ttlWithDelay } from './clock.js'
import type { Grant } from './driver.js'
import type { LossCause } from './errors.js'
import type { LeaseFacts } from './lease-plan.js'
import type { Terms } from './options.js'
import { Validity } from './validity.js'

export class LeaseRecord implements LeaseFacts {
  readonly grant: Grant
  readonly lockDelay: number
  ttl: number
  autoRenew: boolean
  knownUntil: number = Number.POSITIVE_INFINITY
  maxHoldAt: number = Number.POSITIVE_INFINITY
  renewAt = 0
  overdueAt: number = Number.POSITIVE_INFINITY
  doubtReported = false
  renewing = false
  extending = 0
  loss: LossCause | undefined
  /** How the lease ended: by a loss that is reported, or by release. */
  end: LossCause | 'released' | undefined
  /** Why the last automatic renewal failed, until one succeeds. */
  lastError: unknown
  /** Undefined until the first renewal is sent. */
  #validity: Validity | undefined

  constructor(grant: Grant, { ttl, lockDelay, autoRenew }: Pick<Terms, 'ttl' | 'lockDelay' | 'autoRenew'>) {
    this.grant = grant
    this.ttl = ttl
    this.lockDelay = lockDelay
    this.autoRenew = autoRenew
    this.rememberUntil()
  }

  get ended(): boolean {
    return this.end !== undefined
  }

  /** The store keeps the grant `lockDelay` longer. */
  get until(): number {
    const { validUntil } = this.grant
    const stored = this.#validity === undefined ? validUntil : Math.min(validUntil, this.#validity.until)
    return stored - this.lockDelay
  }

  /** The requested ttl, or as much of it as the store can give. */
  get maxLeaseTtl(): number {
    return this.leaseTtl(this.ttl)
  }

  /** What a lease of `ttl` would be worth: as much of it as the store can give. */
  leaseTtl(ttl: number): number {
    const { maxTtl = Number.POSITIVE_INFINITY } = this.grant
    return Math.max(0, Math.min(ttl, maxTtl - this.lockDelay))
  }

  /** What the renewals that were sent prove together. */
  get validity(): Validity {
    this.#validity ??= new Validity()
    return this.#validity
  }

  /** May the store still carry out a renewal for less than `ttl` ms, later than all that were answered? */
  mayShortenTo(ttl: number): boolean {
    return this.#validity !== undefined && this.#validity.leastTtl < ttlWithDelay(ttl, this.lockDelay)
  }

  /** Keeps the deadline of this moment as `knownUntil`, unless the store has dropped the grant. */
  rememberUntil(): void {
    const { until } = this
    if (until > Number.NEGATIVE_INFINITY) this.knownUntil = until
  }
}
