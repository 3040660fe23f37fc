/** How the lock process queues: waits for the lock and reports to the supervisor who blocks it. */
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
import { notStarted, type RequestedMode, type RunRequest, storeError, toBlocked } from './messages.js'
import type { SupervisorChannel } from './supervisor-channel.js'

/** How often to poll for the blocker while somebody watches, in ms. */
const announceInterval = 1000
/** Timeout of the final inspection, in ms. */
const inspectTimeout = 3000
/** The same for a store that failed to answer before. */
const shortInspectTimeout = 500

const by = `${hostname()}:${process.pid}`

/** Acquires the lock. `undefined`: there is no lease, and the supervisor has been notified why, or that the wait was cancelled. */
export async function acquireLock(
  locks: Locks,
  claim: RunRequest,
  supervisor: SupervisorChannel,
): Promise<Lease | undefined> {
  const lock = createLock(locks, claim)
  const { wait, ttl, fair, note, mode } = claim
  const options = {
    ttl,
    signal: supervisor.cancelled,
    ...(fair && { fair }),
    ...(note !== undefined && { note }),
    ...(mode.kind === 'permits' && { permits: mode.take }),
  }
  const unwatch = wait > 0 ? watch(locks, claim, supervisor) : () => undefined
  const begun = performance.now()
  try {
    if (wait > 0) return await lock.acquire({ ...options, wait })
    const lease = await lock.tryAcquire(options)
    if (lease === undefined) {
      const found = await findHolders(locks, claim).catch(() => ({ name: undefined, blocked: {} }))
      const blocked = toBlocked(found.blocked)
      supervisor.send({ type: 'busy', waited: 0, ...found, blocked, tooSoon: false })
    }
    return lease
  } catch (error) {
    if (supervisor.cancelled.aborted) return undefined
    if (findCode(error) === 'LEASE_LOST') throw lostMeanwhileError(error, claim)
    else if (findCode(error) !== 'ACQUIRE_TIMEOUT') throw error
    else {
      const waited = performance.now() - begun
      const name = (error as AcquireTimeoutError).lock
      const blocked = await inspectAgain(locks, name, timeoutStatus(error))
      supervisor.send({ type: 'busy', name, waited, blocked: toBlocked(blocked), tooSoon: false })
    }
    return undefined
  } finally {
    unwatch()
  }
}

/** With several names, the first locks are held while the others are waited for, and may be lost meanwhile. */
function lostMeanwhileError(error: unknown, claim: RunRequest): CliError {
  const { lock } = error as LeaseLostError
  return new CliError(
    exits.lost,
    `"${plain(lock)}" was lost while another lock was waited for${notStarted(claim)}`,
  )
}

/** Which of the names is taken, and by whom. A reader blocks only writers. */
async function findHolders(
  locks: Locks,
  { names, mode: asked }: RunRequest,
): Promise<{ name: string | undefined; blocked: WaitStatus }> {
  const [first = '', ...others] = names
  if (others.length === 0) return { name: first, blocked: await inspectAgain(locks, first) }
  const all = Promise.all(names.map((name) => locks.inspect(name)))
  const blocking = ({ holders }: LockStatus) =>
    holders.find(({ mode }) => asked.kind !== 'shared' || mode.kind !== 'shared')
  const found = (await Promise.race([all, silenceError(inspectTimeout)])).find(blocking)
  const holder = found && blocking(found)
  return holder === undefined ? { name: undefined, blocked: {} } : { name: found?.name, blocked: { holder } }
}

/**
 * The current holder. A store that does not answer may never have: then it is unknown whether the lock is free, unless a holder was reported before.
 */
export async function inspectAgain(locks: Locks, name: string, heard?: WaitStatus): Promise<WaitStatus> {
  try {
    return await Promise.race([
      inspectHolders(locks, name),
      silenceError(heard?.error ? shortInspectTimeout : inspectTimeout),
    ])
  } catch (error) {
    if (heard?.holder === undefined) throw heard?.error ?? error
    return heard
  }
}

function silenceError(within: number): Promise<never> {
  return new Promise((_, reject) => {
    const late = () => reject(Object.assign(new Error('the store does not answer'), { code: 'BACKEND' }))
    setTimeout(late, within).unref()
  })
}

function timeoutStatus(timeout: unknown): WaitStatus {
  const { holder, cause } = timeout as AcquireTimeoutError
  return {
    ...(holder !== undefined && { holder }),
    ...(cause instanceof BackendError && { error: cause }),
  }
}

/** Several names act as one lock: all or none, in a fixed order whatever order they were given in, within one wait. */
function createLock(locks: Locks, { names, mode }: RunRequest): Lock {
  const parts = names.map((name) => createPart(locks, name, mode))
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : locks.all(parts)
}

function createPart(locks: Locks, name: string, requestedMode: RequestedMode): Lock {
  switch (requestedMode.kind) {
    case 'exclusive':
      return locks.mutex(name)
    case 'shared':
      return locks.readWrite(name).read
    case 'permits':
      return locks.semaphore(name, { permits: requestedMode.of })
  }
}

/** Reports to the supervisor who blocks the claim: on every report of the store, and every second while somebody watches. */
function watch(locks: Locks, { names, watched }: RunRequest, supervisor: SupervisorChannel): () => void {
  let current = names.length === 1 ? names[0] : undefined
  const off = locks.on('waiting', ({ name, blocked: { error, ...blocked } }) => {
    current = name
    supervisor.send({
      type: 'waiting',
      name,
      blocked,
      ...(error !== undefined && { error: storeError(error) }),
    })
  })
  const ask = async () => {
    const name = current
    if (name === undefined) return
    const found = await inspectHolders(locks, name).catch(() => undefined)
    if (found?.position !== undefined && name === current)
      supervisor.send({ type: 'waiting', name, blocked: found, waiters: found.waiters })
  }
  const timer = watched ? setInterval(() => void ask(), announceInterval) : undefined
  return () => {
    off()
    clearInterval(timer)
  }
}

async function inspectHolders(
  locks: Locks,
  name: string,
): Promise<WaitStatus & { readonly waiters: number }> {
  const { holders, waiters } = await locks.inspect(name)
  const [holder] = holders
  const index = waiters.findIndex((waiter) => waiter.client === by)
  return {
    waiters: waiters.length,
    ...(holder !== undefined && { holder }),
    ...(index >= 0 && { position: index + 1 }),
  }
}

const findCode = (error: unknown) => (error as { code?: unknown } | null)?.code
