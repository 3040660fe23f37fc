import { ttlWithDelay } from './clock.js'
import type { Claim } from './driver.js'
import type { Mode } from './mode.js'
import type { Terms } from './options.js'

/** With a lock-delay the core asks the store for more time than it gives the caller: see `watchdog.ts`. */
export function createClaim(name: string, attempt: string, mode: Mode, terms: Terms): Claim {
  const { fair, ttl, lockDelay, note } = terms
  const claim = { name, attempt, mode, fair, ttl: ttlWithDelay(ttl, lockDelay) }
  if (lockDelay === 0 && note === undefined) return claim
  return { ...claim, ...(lockDelay > 0 && { lockDelay }), ...(note !== undefined && { note }) }
}
