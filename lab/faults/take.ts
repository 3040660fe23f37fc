/** How a worker requests a lock: one attempt, a limited wait, an endless wait, or until it changes its mind. And for how long it extends it. */
import type { Lease, Lock, Locks } from 'holdfast'
import type { Chance } from './chance.js'
import { longest, permitsOf, type Subject } from './workload.js'

export function createLock(locks: Locks, { name, kind }: Subject, random: Chance): Lock {
  if (kind === 'semaphore') return locks.semaphore(name, { permits: permitsOf })
  if (kind === 'read-write') return locks.readWrite(name)[random.next() < 0.7 ? 'read' : 'write']
  return locks.mutex(name)
}

export async function acquireRandomly(
  lock: Lock,
  { kind, slow }: Subject,
  random: Chance,
  { ttl, linger }: { readonly ttl: number; readonly linger: number },
): Promise<Lease | undefined> {
  const permits = kind === 'semaphore' ? { permits: 1 + random.below(permitsOf - 1) } : {}
  const stays = linger > 0 && kind !== 'semaphore' ? { linger } : {}
  const way = random.next()
  // A waiter knows how long the holder has; a try shows what the store admits.
  const tries = slow ? 0.4 : 0.08
  if (way < tries) return lock.tryAcquire({ ...permits, ...stays })
  const fair = kind === 'fair' ? { fair: true } : {}
  const wait = randomWait(random, ttl)
  if (way > 0.06 + tries) return lock.acquire({ ...permits, ...stays, ...fair, ...wait })
  const gone = new AbortController()
  const timer = setTimeout(() => gone.abort(), random.between(0, 40))
  try {
    return await lock.acquire({ ...permits, ...stays, ...fair, signal: gone.signal })
  } finally {
    clearTimeout(timer)
  }
}

/** Some waits are short, some endless: a forgotten waiter shows on the endless ones. */
function randomWait(random: Chance, ttl: number): { wait: number } {
  const way = random.next()
  if (way < 0.4) return { wait: random.between(0.02, 0.3) * ttl }
  // Explicit although it is the default: the history then knows when a wait expired.
  return { wait: way < 0.7 ? Number.POSITIVE_INFINITY : 4 * ttl }
}

/**
 * What a lease is extended to, in ms: unchanged, shorter or longer, never longer than the store was told to expect.
 * @param least the store's minimum
 */
export function randomTerm(random: Chance, ttl: number, least: number): number | undefined {
  if (random.next() < 0.4) return undefined
  return Math.max(least, Math.round(random.between(0.1, longest) * ttl))
}

/** For how long a lock stays with its process after a release, in ms: in one of two takes not at all. */
export function randomLinger(random: Chance, ttl: number): number {
  return random.next() < 0.5 ? 0 : someLinger(random, ttl)
}

/** Log-uniform, from much shorter than a ttl to longer than one. */
export function someLinger(random: Chance, ttl: number): number {
  return Math.ceil(ttl * Math.exp(random.between(Math.log(0.02), Math.log(4))))
}
