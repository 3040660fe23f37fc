/**
 * The renewals of one grant, automatic ones and those that its holder asks for. They are sent one after the other: of
 * two under way at once, nobody knows which the store carries out last. One request is a `Renewal`; when an automatic
 * one is due is decided in `lease-plan.ts`.
 */
import { ttlWithDelay } from './clock.js'
import type { Engine } from './engine.js'
import { type LeaseHealth, tryTime } from './lease-plan.js'
import type { LeaseRecord } from './lease-record.js'
import { Renewal, type RenewalOwner } from './renewal.js'

/** Keeps the lease, and is notified of what came of its renewals. */
export interface RenewalsOwner extends RenewalOwner {
  /** Reports a loss that nobody has noticed yet. */
  checkNow(): LeaseHealth
  /** An automatic renewal failed, or got no reply in time. */
  renewalFailed(error: unknown): void
  /** A renewal that the holder asked for has ended, however it ended. */
  extended(): void
}

export class Renewals {
  readonly #engine: Engine
  readonly #lease: LeaseRecord
  readonly #owner: RenewalsOwner
  /** The automatic one under way. */
  #automatic: Renewal | undefined
  /** Settles with the one under way, automatic or not; never rejects. */
  #underWay: Promise<void> | undefined

  constructor(engine: Engine, lease: LeaseRecord, owner: RenewalsOwner) {
    this.#engine = engine
    this.#lease = lease
    this.#owner = owner
  }

  /** Sends an automatic renewal. None may be under way. */
  renew(): void {
    const settled = () => {
      // A listener of its success may have sent another.
      if (this.#underWay !== renewing) return
      this.#automatic = undefined
      this.#track(undefined)
    }
    const failed = (error: unknown) => {
      settled()
      this.#owner.renewalFailed(error)
    }
    this.#automatic = this.#create(this.#lease.ttl, settled)
    const renewing = this.#automatic.send().then(settled, failed)
    this.#track(renewing)
  }

  /** Sends a renewal that the holder asks for. Its `ttl` becomes that of the lease if the store replies in time. Resolves as `Watchdog.renewNow`. */
  async extend(ttl: number): Promise<boolean> {
    const lease = this.#lease
    lease.extending++
    try {
      while (this.#underWay !== undefined) await this.#engine.keepAliveDuring(this.#underWay)
      if (this.#owner.checkNow() === 'lost') return false
      const renewal = this.#create(ttl, () => {
        lease.ttl = ttl
      })
      const renewing = renewal.send()
      const settled = () => this.#track(undefined)
      this.#track(renewing.then(settled, settled))
      await renewing
      return !lease.ended
    } finally {
      lease.extending--
      this.#owner.extended()
    }
  }

  /** The lease has ended: gives up the automatic renewal under way. */
  abort(): void {
    this.#automatic?.abort()
    this.#automatic = undefined
  }

  /** @param inTime called when the store replies before the renewal is given up */
  #create(ttl: number, inTime: () => void): Renewal {
    const lease = this.#lease
    return new Renewal(this.#engine, lease, this.#owner, {
      ttl: ttlWithDelay(ttl, lease.lockDelay),
      timeout: tryTime(lease.leaseTtl(ttl)),
      until: lease.until,
      ref: lease.extending > 0,
      inTime,
    })
  }

  #track(underWay: Promise<void> | undefined): void {
    this.#underWay = underWay
    this.#lease.renewing = underWay !== undefined
  }
}
