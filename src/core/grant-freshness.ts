/**
 * A grant has little time left if its reply was slow or had to wait for a blocked event loop. The store still keeps
 * the lock for it, so the grant is renewed before the waiter gets it: if it were released, the waiter would lose its
 * turn.
 */

import type { Clock } from './clock.js'
import type { Grant } from './driver.js'
import type { Engine } from './engine.js'
import { minTtlShare } from './handoff-rules.js'
import { tryTime } from './lease-plan.js'
import { onAbort } from './on-abort.js'
import type { Terms } from './options.js'
import { orAborted } from './or-aborted.js'
import type { StoreRequest } from './store-request.js'
import { TimeLimit } from './time-limit.js'

/** False for a grant that arrived when it had nearly expired, or that was revoked on the way. */
export function usable(grant: Grant, { ttl, lockDelay }: Terms, now: number): boolean {
  return grant.validUntil - lockDelay - now >= Math.min(ttl / 5, 100)
}

/** Has the grant less time left than a lease needs for a local hand-over? False once it is over: then nothing is left to renew. */
export function isShortened(grant: Grant, { ttl, lockDelay }: Terms, now: number): boolean {
  const { validUntil, maxTtl = Number.POSITIVE_INFINITY } = grant
  const worth = Math.min(ttl, maxTtl - lockDelay)
  return now < validUntil && validUntil - lockDelay - now < minTtlShare * worth
}

/**
 * Renews the grant for the requested time, so that it can only end later, at whatever moment the store carries out the renewal. A
 * renewal that fails at once is retried for as long as a renewal may take: a stall breaks connections, too. Resolves
 * with false when the store replies that the grant is over, else with true; the time left then shows whether it was
 * renewed. Ends early when no caller wants the grant any more.
 */
export async function renewed(
  engine: Engine,
  grant: Grant,
  { claim, signal }: StoreRequest,
): Promise<boolean> {
  const { clock, random } = engine
  const controller = new AbortController()
  const giveUp = () => controller.abort(new Error('this renewal was given up: the wait has ended'))
  const limit = new TimeLimit(clock, tryTime(claim.ttl), giveUp).armSoon()
  const unlisten = onAbort(signal, giveUp)
  try {
    while (!signal.aborted && !controller.signal.aborted) {
      const renewing = grant.renew(claim.ttl, controller.signal).then((until) => until !== undefined)
      const kept = await orAborted(renewing, controller.signal).catch(() => undefined)
      if (kept !== undefined) return kept
      await pause(clock, Math.max(10, claim.ttl / 40) * (0.5 + random()), controller.signal)
    }
    return true
  } finally {
    limit.stop()
    unlisten()
  }
}

/** Waits `ms`, or until `signal` aborts. */
function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const stop = clock.at(clock.now() + ms, () => {
      unlisten()
      resolve()
    })
    const unlisten = onAbort(signal, () => {
      stop()
      resolve()
    })
  })
}
