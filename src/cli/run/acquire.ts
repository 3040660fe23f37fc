/** How the keeper queues: waits for the lock and reports to the front who blocks it. */
import { hostname } from 'node:os'
import {
  type AcquireTimeoutError,
  BackendError,
  type Lease,
  type LeaseLostError,
  type Lock,
  type LockStatus,
  type Locks,
  type WaitStatus,
} from 'holdfast'
import { CliError, exits } from '../exit.js'
import { plain } from '../print.js'
import { type Asked, blockedBy, type Claim, notStarted, storeError } from './messages.js'
import type { Front } from './supervisor-channel.js'

/** How often to poll for the blocker while somebody watches, in ms. */
const askEvery = 1000
/** Timeout of the final inspection, in ms. */
const lookFor = 3000
/** The same for a store that failed to answer before. */
const lookBriefly = 500

const by = `${hostname()}:${process.pid}`

/** Acquires the lock. `undefined`: there is no lease, and the front knows why, or was told that it is cancelled. */
export async function stand(locks: Locks, claim: Claim, front: Front): Promise<Lease | undefined> {
  const lock = lockOf(locks, claim)
  const { wait, ttl, fair, note, asked } = claim
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
      const found = await inTheWay(locks, claim).catch(() => ({ name: undefined, blocked: {} }))
      const blocked = blockedBy(found.blocked)
      front.tell({ type: 'busy', waited: 0, ...found, blocked, tooSoon: false })
    }
    return lease
  } catch (error) {
    if (front.cancelled.aborted) return undefined
    if (codeOf(error) === 'LEASE_LOST') throw lostMeanwhile(error, claim)
    else if (codeOf(error) !== 'ACQUIRE_TIMEOUT') throw error
    else {
      const waited = performance.now() - begun
      const name = (error as AcquireTimeoutError).lock
      const blocked = await lookAgain(locks, name, heardOf(error))
      front.tell({ type: 'busy', name, waited, blocked: blockedBy(blocked), tooSoon: false })
    }
    return undefined
  } finally {
    unwatch()
  }
}

/** With several names, the first locks are held while the others are waited for, and may be lost meanwhile. */
function lostMeanwhile(error: unknown, claim: Claim): CliError {
  const { lock } = error as LeaseLostError
  return new CliError(
    exits.lost,
    `"${plain(lock)}" was lost while another lock was waited for${notStarted(claim)}`,
  )
}

/** Which of the names is taken, and by whom. A reader blocks only writers. */
async function inTheWay(
  locks: Locks,
  { names, asked }: Claim,
): Promise<{ name: string | undefined; blocked: WaitStatus }> {
  const [first = '', ...others] = names
  if (others.length === 0) return { name: first, blocked: await lookAgain(locks, first) }
  const all = Promise.all(names.map((name) => locks.inspect(name)))
  const blocking = ({ holders }: LockStatus) =>
    holders.find(({ mode }) => asked.kind !== 'shared' || mode.kind !== 'shared')
  const found = (await Promise.race([all, silence(lookFor)])).find(blocking)
  const holder = found && blocking(found)
  return holder === undefined ? { name: undefined, blocked: {} } : { name: found?.name, blocked: { holder } }
}

/**
 * The current holder. A store that does not answer may never have: then it is unknown whether the lock is free, unless a holder was reported before.
 */
export async function lookAgain(locks: Locks, name: string, heard?: WaitStatus): Promise<WaitStatus> {
  try {
    return await Promise.race([lookAround(locks, name), silence(heard?.error ? lookBriefly : lookFor)])
  } catch (error) {
    if (heard?.holder === undefined) throw heard?.error ?? error
    return heard
  }
}

function silence(within: number): Promise<never> {
  return new Promise((_, reject) => {
    const late = () => reject(Object.assign(new Error('the store does not answer'), { code: 'BACKEND' }))
    setTimeout(late, within).unref()
  })
}

function heardOf(timeout: unknown): WaitStatus {
  const { holder, cause } = timeout as AcquireTimeoutError
  return {
    ...(holder !== undefined && { holder }),
    ...(cause instanceof BackendError && { error: cause }),
  }
}

/** Several names act as one lock: all or none, in a fixed order whatever order they were given in, within one wait. */
function lockOf(locks: Locks, { names, asked }: Claim): Lock {
  const parts = names.map((name) => partOf(locks, name, asked))
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : locks.all(parts)
}

function partOf(locks: Locks, name: string, asked: Asked): Lock {
  switch (asked.kind) {
    case 'exclusive':
      return locks.mutex(name)
    case 'shared':
      return locks.readWrite(name).read
    case 'permits':
      return locks.semaphore(name, { permits: asked.of })
  }
}

/** Reports to the front who blocks the claim: on every report of the store, and every second while somebody watches. */
function watch(locks: Locks, { names, watched }: Claim, front: Front): () => void {
  let current = names.length === 1 ? names[0] : undefined
  const off = locks.on('waiting', ({ name, blocked: { error, ...blocked } }) => {
    current = name
    front.tell({ type: 'waiting', name, blocked, ...(error !== undefined && { error: storeError(error) }) })
  })
  const ask = async () => {
    const name = current
    if (name === undefined) return
    const found = await lookAround(locks, name).catch(() => undefined)
    if (found?.position !== undefined && name === current)
      front.tell({ type: 'waiting', name, blocked: found, waiters: found.waiters })
  }
  const timer = watched ? setInterval(() => void ask(), askEvery) : undefined
  return () => {
    off()
    clearInterval(timer)
  }
}

async function lookAround(locks: Locks, name: string): Promise<WaitStatus & { readonly waiters: number }> {
  const { holders, waiters } = await locks.inspect(name)
  const [holder] = holders
  const index = waiters.findIndex((waiter) => waiter.client === by)
  return {
    waiters: waiters.length,
    ...(holder !== undefined && { holder }),
    ...(index >= 0 && { position: index + 1 }),
  }
}

const codeOf = (error: unknown) => (error as { code?: unknown } | null)?.code
