/** Orders a worker receives beside its lanes: many waits at once, and an operator's forced release. */
import type { Lock, Locks } from 'holdfast'
import type { Chance } from './chance.js'
import { locksAmong, type OrderOf, type Subject } from './workload.js'

/** @returns every wait of the crowd, including a short section under the lock once granted */
export function burst(
  locks: Locks,
  subjects: readonly Subject[],
  ttl: number,
  { size, abortWithin }: OrderOf<'crowd'>,
  random: Chance,
): Promise<void>[] {
  // If the store keeps no queue across processes, they queue for a plain mutex.
  const subject =
    subjects.find(({ kind }) => kind === 'fair') ?? subjects.find(({ kind }) => kind === 'mutex')
  if (subject === undefined) return []
  const fair = subject.kind === 'fair'
  const lock = locks.mutex(subject.name)
  return Array.from({ length: size }, () => {
    const within = abortWithin === undefined ? undefined : random.between(0, abortWithin)
    return one(lock, fair, 8 * ttl, within)
  })
}

async function one(lock: Lock, fair: boolean, wait: number, abortWithin: number | undefined): Promise<void> {
  const gone = new AbortController()
  const timer = abortWithin === undefined ? undefined : setTimeout(() => gone.abort(), abortWithin)
  try {
    const lease = await lock.acquire({ wait, signal: gone.signal, ...(fair && { fair }) })
    await new Promise(setImmediate)
    await lease.release()
  } finally {
    clearTimeout(timer)
  }
}

export async function forceReleaseAny(
  locks: Locks,
  subjects: readonly Subject[],
  choice: number,
): Promise<void> {
  const names = locksAmong(subjects).map(({ name }) => name)
  const name = names[Math.floor(choice) % names.length]
  if (name === undefined) return
  await locks.forceRelease(name).catch((error: { code?: unknown }) => {
    // Only an administrator can end PostgreSQL's sessions.
    if (error.code !== 'UNSUPPORTED') throw error
  })
}
