/** The final inspection, after all workers have ended. */
import { createLocks, type Lock, type LockStatus, type Locks } from 'holdfast'
import { type Recorder, recordLocks } from 'holdfast/verify'
import { until } from '../../test/support/until.js'
import type { Store } from './store.js'
import { locksAmong, permitsOf, type Subject, subjectsFor } from './workload.js'

/** How long a store may treat a killed waiter as alive, in ms; at the end nobody waits behind it. */
const deadWaiterTimeout = 20_000

/**
 * At the end each lock is acquired once, completely: whatever killed processes left behind, the wait is no longer than the store needs to
 * settle. Only then is the store inspected, because a lock not used since still shows its state from that time.
 */
export async function inspectFinally(store: Store, journal: Recorder, ttl: number): Promise<string[]> {
  if (store.direct === undefined) return []
  const client = await store.direct()
  const locks = recordLocks(createLocks(client.driver, { ttl }), journal)
  const subjects = locksAmong(subjectsFor(locks.driver.traits, store.lingers))
  const within = store.settles + deadWaiterTimeout
  try {
    const signal = AbortSignal.timeout(within)
    // An endless wait that is given up shows as one that was not served in time.
    const taken = await Promise.allSettled(
      subjects.map((subject) => acquireExclusively(locks, subject, signal)),
    )
    const untaken = taken.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
    const gone = async () => {
      for (const { name } of subjects) {
        const { holders, waiters } = describeStatus(await locks.inspect(name))
        if (holders + waiters > 0) return false
      }
      return true
    }
    if (untaken.length === 0) await until(gone, { within, every: 50 }).catch(() => undefined)
    for (const { name } of subjects) {
      journal.write({ op: 'standing', phase: 'info', name, ...describeStatus(await locks.inspect(name)) })
    }
    return untaken.map((why) => `a lock could not be acquired in the end: ${why}`)
  } catch (error) {
    return [`the store could not be looked at in the end: ${error}`]
  } finally {
    await locks.close()
    await client.close()
  }
}

async function acquireExclusively(locks: Locks, { name, kind }: Subject, signal: AbortSignal): Promise<void> {
  const all = kind === 'semaphore' ? { permits: permitsOf } : {}
  const lock: Lock =
    kind === 'semaphore'
      ? locks.semaphore(name, { permits: permitsOf })
      : kind === 'read-write'
        ? locks.readWrite(name).write
        : locks.mutex(name)
  const lease = await lock.acquire({ ...all, wait: Number.POSITIVE_INFINITY, signal })
  await lease.release()
}

/** An expired hold may stay recorded until the next request for the lock. */
function describeStatus({ holders, waiters }: LockStatus): { holders: number; waiters: number } {
  return { holders: holders.filter((one) => one.expiresIn > 0).length, waiters: waiters.length }
}
