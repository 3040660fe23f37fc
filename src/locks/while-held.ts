/** What a holder does in the store, for as long as its lease lasts. */
import type { Engine } from '../core/engine.js'
import { LeaseLostError, unavailable } from '../core/errors.js'
import type { HeldLease } from '../core/lease.js'
import { type Deadline, TimedOut, withDeadline } from '../core/with-deadline.js'

/**
 * A lease that ran out because the store was silent is an outage: the holder learns how long it was tried, and why.
 * @throws LeaseLostError when the lease was released or lost for another reason; BackendError with code `UNAVAILABLE` when the
 * store did not reply before the lease ran out; the reason of `signal`; what `work` throws
 */
export async function whileHeld<R>(
  engine: Engine,
  lease: HeldLease,
  work: (bounds: Deadline) => Promise<R>,
  signal?: AbortSignal,
): Promise<R> {
  const from = engine.clock.now()
  let bounds: Deadline | undefined
  const within = { wait: Math.max(1, lease.remaining()), ...(signal && { signal }) }
  const done = await withDeadline(engine, within, (given) => {
    bounds = given
    return work(given)
  }).catch((error: unknown) => {
    const silent = bounds?.error !== undefined && error instanceof LeaseLostError && error.why === 'expired'
    if (silent) return new TimedOut(engine.clock.now() - from, bounds as Deadline)
    throw error
  })
  if (!(done instanceof TimedOut)) return done
  const { lost } = lease.hold
  if (lost !== undefined && lost.why !== 'expired') throw lost
  if (lease.hold.state() === 'released') throw lease.hold.lostError()
  throw unavailable(engine.driver.name, lease.name, done.waited, done.error)
}
