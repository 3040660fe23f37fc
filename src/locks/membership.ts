/**
 * Liveness of participants: each holds a shared lease of the name, and its attempt is listed in a cell. It acquires
 * the lease before it is listed, and releases it after. So an attempt that is listed without a lease belongs to a participant that has died or is leaving.
 */
import { EngineLock } from '../core/acquire.js'
import type { CellRef } from '../core/cell-ref.js'
import type { HeldLease } from '../core/lease.js'
import { shared } from '../core/mode.js'
import type { Terms } from '../core/options.js'
import type { Deadline } from '../core/with-deadline.js'
import { noPermits } from './no-permits.js'

export interface Membership {
  /** The lock that participants hold. */
  readonly lock: EngineLock
  /** Those whose lease the store still knows; all of them, when it does not list every holder. No request when the list is empty. */
  alive(attempts: readonly string[], bounds: Deadline): Promise<readonly string[]>
}

/** How often to poll whether participants are alive, in ms, while somebody waits for them: a lease that ends changes no cell. */
export const checkInterval = 500

/** @throws UnsupportedError when the driver has no shared mode */
export function createMembership(cellRef: CellRef, name: string, what: string, terms: Terms): Membership {
  const { engine } = cellRef
  const lock = new EngineLock(engine, name, 'shared', noPermits(what, shared), terms)
  return {
    lock,
    async alive(attempts, bounds) {
      if (attempts.length === 0) return attempts
      const { holders, unlisted = 0 } = await cellRef.retrying(bounds, () => engine.driver.inspect(name))
      // An unlisted holder may be alive, and one that counts as dead would lose its hold to others.
      if (unlisted > 0) return attempts
      const alive = new Set(holders.filter(({ expiresIn }) => expiresIn > 0).map(({ attempt }) => attempt))
      return attempts.filter((attempt) => alive.has(attempt))
    },
  }
}

/** The options of a participant that waits: its lease proves it alive, and those of its caller apply from {@link beginHold} on. */
export const whileWaiting: { readonly autoRenew: true; readonly maxHold: number } = {
  autoRenew: true,
  maxHold: Number.POSITIVE_INFINITY,
}

/** The wait of a participant is over: its lease gets the terms of its caller. @throws as `Lease.extend` */
export async function beginHold(lease: HeldLease, { autoRenew, maxHold }: Terms): Promise<void> {
  const { watchdog, engine } = lease.hold
  watchdog.limit(engine.clock.now() + maxHold)
  if (autoRenew) return
  watchdog.autoRenew = false
  // Nobody renews it from now on, and a part of its ttl has passed.
  await lease.extend()
}
