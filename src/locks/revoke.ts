/**
 * Takes a lock from its holder: first it asks the holder, then, after a grace period, it forces the release.
 *
 * The request is a cell beside the lock that names the holds it is meant for. Only a holder that listens receives it:
 * watching costs a request for each lease, and most leases are never asked. The lock of a listening holder that was
 * asked is not handed over inside its process.
 */

import { EngineLock } from '../core/acquire.js'
import { mayBeCached } from '../core/caching.js'
import { CellRef } from '../core/cell-ref.js'
import { type Duration, duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { UnsupportedError } from '../core/errors.js'
import { checkKnown } from '../core/known-options.js'
import { HeldLease, type Lease } from '../core/lease.js'
import { exclusive } from '../core/mode.js'
import { checkName, describe } from '../core/name.js'
import { onAbort } from '../core/on-abort.js'
import { checkOptions } from '../core/options.js'
import { type Deadline, readOnce, TimedOut, withDeadline } from '../core/with-deadline.js'

export interface RevokeOptions {
  /** How long the holder has to give way, in ms. @default 10_000 */
  readonly grace?: Duration
  /** Passed to the holder. At most 256 bytes. */
  readonly why?: string
  /** Ends the wait, not the request: the holder may still give way, but is not forced. */
  readonly signal?: AbortSignal
}

/** `free`: nobody held it; `released`: the holder released it within the grace; `forced`: it was taken by force. */
export type RevokeOutcome = 'free' | 'released' | 'forced'

/** What a holder receives. */
export interface RevokeRequest {
  /** Milliseconds it has, from the moment of the request. */
  readonly grace: number
  /** The requester: `host:pid`. */
  readonly client: string
  readonly why?: string
}

/** The value of the cell, as JSON. */
interface Request extends Omit<RevokeRequest, 'client'> {
  /** {@link RevokeRequest.client}. */
  readonly by: string
  readonly id: string
  readonly attempts: readonly string[]
}

/** How often to poll whether the holder has given way, in ms. */
const checkInterval = 250

/** How long a holder that may only be a cache has to give way, however short the grace, in ms. */
const leastGrace = 50

/** @throws UnsupportedError, TypeError, RangeError; BackendError when the store does not reply; the reason of `signal` */
export async function revoke(
  engine: Engine,
  name: string,
  options: RevokeOptions = {},
): Promise<RevokeOutcome> {
  checkName(name)
  checkOptions(options, ['grace'])
  checkKnown('revoke()', options, ['grace', 'why', 'signal'])
  const grace = duration('grace', options.grace ?? 10_000, 0, false)
  const { why, signal } = options
  if (why !== undefined) checkName(why, 'why')
  const { driver } = engine
  const force = driver.forceRelease
  if (force === undefined)
    throw new UnsupportedError(driver.name, 'forced release', 'use the tools of the store itself')
  const cell = new CellRef(engine, 'revoke', name)
  const holding = async (bounds: Deadline) => {
    const { holders } = await cell.retrying(bounds, () => driver.inspect(name))
    return holders.filter(({ expiresIn }) => expiresIn > 0).map(({ attempt }) => attempt)
  }
  // What is cached here is free.
  await engine.queues.get(name)?.cache?.endNow()
  const attempts = await readOnce(engine, name, holding, { signal })
  if (attempts.length === 0) return 'free'
  const request: Request = {
    id: engine.env.id(),
    attempts,
    grace,
    by: engine.env.client,
    ...(why !== undefined && { why }),
  }
  const asked = { value: JSON.stringify(request), keep: grace + 60_000 }
  await readOnce(
    engine,
    name,
    (bounds) => cell.update((cell) => (cell?.value === asked.value ? undefined : asked), bounds),
    { signal },
  )
  const left = attempts.some(mayBeCached) ? standInLine(engine, name, grace, signal) : undefined
  const until = { wait: Math.max(1, grace), patient: true, ...(signal !== undefined && { signal }) }
  const gone = await withDeadline(engine, until, (bounds) =>
    cell.waitUntil(
      async () => (await held(holding, attempts, bounds)) === 0 || undefined,
      bounds,
      checkInterval,
    ),
  )
  await left?.()
  if (!(gone instanceof TimedOut)) return 'released'
  // The last check before the forced release: it must not hit a holder that came after the one that was asked.
  if ((await readOnce(engine, name, (bounds) => held(holding, attempts, bounds), { signal })) === 0)
    return 'released'
  await engine.asked('forceRelease', name, force.call(driver, name))
  return 'forced'
}

/**
 * A grant that may be cached can outlive the hold that was asked. A waiter prevents that: the grant is not reused then, and
 * is handed over inside its process for 50 ms at most. Returns a function that leaves the queue.
 */
function standInLine(
  engine: Engine,
  name: string,
  grace: number,
  signal: AbortSignal | undefined,
): () => Promise<void> {
  const lock = new EngineLock(engine, name, 'exclusive', () => exclusive)
  const controller = new AbortController()
  const stop = signal === undefined ? undefined : onAbort(signal, () => controller.abort())
  const taken = lock
    .acquire({ wait: Math.max(grace, leastGrace), signal: controller.signal, linger: 0, fair: false })
    .then((lease) => lease.release())
    .catch(() => undefined)
  return async () => {
    if (grace < leastGrace) await taken
    controller.abort()
    stop?.()
    await taken
  }
}

/** How many of them still hold. */
async function held(
  holding: (bounds: Deadline) => Promise<readonly string[]>,
  attempts: readonly string[],
  bounds: Deadline,
): Promise<number> {
  const now = await holding(bounds)
  return attempts.filter((attempt) => now.includes(attempt)).length
}

/**
 * Listens for requests to give way, until the lease ends. Returns a function that ends it earlier.
 * @throws TypeError, UnsupportedError
 */
export function onRevoke(engine: Engine, lease: Lease, listener: (asked: RevokeRequest) => void): () => void {
  if (!(lease instanceof HeldLease) || lease.hold.engine !== engine)
    throw new TypeError(`onRevoke takes a lease of a single lock of these locks, got ${describe(lease)}`)
  const { hold } = lease
  const cell = new CellRef(engine, 'revoke', hold.name)
  const { attempt } = hold.watchdog.claim
  const controller = new AbortController()
  const { signal } = controller
  const stop = () => controller.abort(new Error('no longer held'))
  const before = hold.onOver
  hold.onOver = () => {
    before?.()
    stop()
  }
  if (hold.over) stop()
  const listen = async () => {
    let last = ''
    for (;;) {
      const forEver = { wait: Number.POSITIVE_INFINITY, signal, ref: false, patient: true }
      const request = await withDeadline(engine, forEver, (bounds) =>
        cell.waitUntil((cell) => {
          const found = cell && (JSON.parse(cell.value) as Request)
          return found?.attempts.includes(attempt) && found.id !== last ? found : undefined
        }, bounds),
      )
      if (request === undefined || request instanceof TimedOut) return
      last = request.id
      hold.revoked = true
      const { grace, by: client, why } = request
      engine.events.emit('revokeRequested', { ...hold.about(), grace, client, why })
      listener({ grace, client, ...(why !== undefined && { why }) })
    }
  }
  // The listening ends with the lease, or with these locks; then there is nobody to notify.
  listen().catch((error: unknown) => {
    if (!signal.aborted && !engine.closed)
      process.emitWarning(`onRevoke ended: ${String(error)}`, 'HoldfastWarning')
  })
  return stop
}
