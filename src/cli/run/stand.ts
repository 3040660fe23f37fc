/** The keeper in line: waits for the lock, tells the front who is in the way. */
import { hostname } from 'node:os'
import {
  type AcquireTimeoutError,
  BackendError,
  type Blocked,
  type Lease,
  type Lock,
  type Locks,
} from 'holdfast'
import type { Front } from './listen.js'
import type { Claim } from './messages.js'

/** How often to ask who is in the way while somebody watches, in ms. */
const askEvery = 1000
/** How long a last question may take, in ms. */
const lookFor = 3000

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
    if (lease === undefined) {
      const blocked = await lookAgain(locks, name).catch(() => ({}))
      front.tell({ type: 'busy', waited: 0, blocked, tooSoon: false })
    }
    return lease
  } catch (error) {
    if (front.cancelled.aborted) front.tell({ type: 'done', outcome: 'already-released', stopped: undefined })
    else if (!isTimeout(error)) throw error
    else {
      const waited = performance.now() - begun
      const blocked = await lookAgain(locks, name, heardOf(error))
      front.tell({ type: 'busy', waited, blocked, tooSoon: false })
    }
    return undefined
  } finally {
    unwatch()
  }
}

/**
 * Who has it now. A store that does not answer may never have: then nobody knows whether the lock is free, unless somebody was
 * heard to hold it.
 */
export async function lookAgain(locks: Locks, name: string, heard?: Blocked): Promise<Blocked> {
  try {
    return await Promise.race([lookAround(locks, name), silence()])
  } catch (error) {
    if (heard?.holder === undefined) throw heard?.trouble ?? error
    return heard
  }
}

function silence(): Promise<never> {
  return new Promise((_, reject) => {
    const late = () => reject(Object.assign(new Error('the store does not answer'), { code: 'BACKEND' }))
    setTimeout(late, lookFor).unref()
  })
}

function heardOf(timeout: unknown): Blocked {
  const { holder, cause } = timeout as AcquireTimeoutError
  return {
    ...(holder !== undefined && { holder }),
    ...(cause instanceof BackendError && { trouble: cause }),
  }
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
  const off = locks.on('waiting', ({ blocked: { trouble, ...blocked } }) =>
    front.tell({ type: 'waiting', blocked, ...(trouble !== undefined && { trouble: trouble.message }) }),
  )
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
