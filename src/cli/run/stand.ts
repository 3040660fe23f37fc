/** The keeper in line: waits for the lock, tells the front who is in the way. */
import { hostname } from 'node:os'
import type { Blocked, Lease, Lock, Locks } from 'holdfast'
import type { Front } from './listen.js'
import type { Claim } from './messages.js'

/** How often to ask who is in the way while somebody watches, in ms. */
const askEvery = 1000

const by = `${hostname()}:${process.pid}`

/** Stands in line. `undefined`: there is no lease, and the front knows why. */
export async function stand(locks: Locks, claim: Claim, front: Front): Promise<Lease | undefined> {
  const lock = lockOf(locks, claim)
  const { name, wait, ttl, fair, note, asked } = claim
  const options = {
    ttl,
    signal: front.cancelled,
    ...(fair && { fair }),
    ...(note !== undefined && { note }),
    ...(asked.kind === 'permits' && { permits: asked.take }),
  }
  const unwatch = wait > 0 ? watch(locks, claim, front) : () => undefined
  const begun = performance.now()
  try {
    if (wait > 0) return await lock.acquire({ ...options, wait })
    const lease = await lock.tryAcquire(options)
    if (lease === undefined) await tellBusy(locks, name, 0, front)
    return lease
  } catch (error) {
    if (front.cancelled.aborted) front.tell({ type: 'done', outcome: 'already-released', stopped: undefined })
    else if (isTimeout(error)) await tellBusy(locks, name, performance.now() - begun, front)
    else throw error
    return undefined
  } finally {
    unwatch()
  }
}

/** Who has it now is worth another question. */
async function tellBusy(locks: Locks, name: string, waited: number, front: Front): Promise<void> {
  const blocked = await lookAround(locks, name).catch(() => ({}))
  front.tell({ type: 'busy', waited, blocked })
}

function lockOf(locks: Locks, { name, asked }: Claim): Lock {
  switch (asked.kind) {
    case 'exclusive':
      return locks.mutex(name)
    case 'shared':
      return locks.readWrite(name).read
    case 'permits':
      return locks.semaphore(name, { permits: asked.of })
  }
}

/** Tells the front who is in the way: when the store says so, and every second while somebody watches. */
function watch(locks: Locks, { name, watched }: Claim, front: Front): () => void {
  const off = locks.on('waiting', ({ blocked }) => front.tell({ type: 'waiting', blocked }))
  const ask = async () => {
    const found = await lookAround(locks, name).catch(() => undefined)
    if (found?.position !== undefined) front.tell({ type: 'waiting', blocked: found, waiters: found.waiters })
  }
  const timer = watched ? setInterval(() => void ask(), askEvery) : undefined
  return () => {
    off()
    clearInterval(timer)
  }
}

async function lookAround(locks: Locks, name: string): Promise<Blocked & { readonly waiters: number }> {
  const { holders, waiters } = await locks.inspect(name)
  const [holder] = holders
  const index = waiters.findIndex((waiter) => waiter.by === by)
  return {
    waiters: waiters.length,
    ...(holder !== undefined && { holder }),
    ...(index >= 0 && { position: index + 1 }),
  }
}

const isTimeout = (error: unknown) => (error as { code?: unknown } | null)?.code === 'ACQUIRE_TIMEOUT'
