/** How long a process that always wants a lock keeps it for itself. */
import type { Lease, Lock } from '../../../src/index.js'

/** Takes it again and again until `other` has had it. Resolves with how often it was passed on, 200 at most. */
export async function passesUntil(lock: Lock, first: Lease, other: Promise<Lease>): Promise<number> {
  let had = false
  const others = other.then(async (lease) => {
    had = true
    await lease.release()
  })
  let passes = 0
  let lease = first
  for (; !had && passes < 200; passes++) {
    const next = lock.acquire()
    await lease.release()
    lease = await next
  }
  await lease.release()
  await others
  return passes
}
