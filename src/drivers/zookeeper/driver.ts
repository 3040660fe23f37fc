/** The driver. `waiter.ts` acquires and `hold.ts` maintains a lease; both use the one session of this process. */
import type { Claim, Driver, DriverFactory, Env, Grant, Traits, Wait } from '../../core/driver.js'
import { orAborted } from '../../core/or-aborted.js'
import { TimeLimit } from '../../core/time-limit.js'
import type { LeaseKey } from '../kit/lease-index.js'
import { cellsOver } from './cells.js'
import { closedError, ignore, isTransient, toFailure } from './failure.js'
import { guardMulti, leaseCheck, type MultiOperation } from './guard.js'
import type { Hold } from './hold.js'
import { forceRelease, readStatus } from './inspect.js'
import { decode } from './keys.js'
import { parseOptions, type Settings, type ZookeeperOptions } from './options.js'
import { createRuntime, type Runtime } from './runtime.js'
import { maxLeaseTtl, maxLockDelay } from './session/heartbeat-timing.js'
import { codes, getChildren } from './session/protocol.js'
import { acquireSimple } from './simple.js'
import { Waiter } from './waiter.js'

export interface ZookeeperTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
}

/** Traits with `strategy: 'simple'`. */
export interface SimpleTraits extends Traits {
  readonly modes: readonly ['exclusive']
  readonly fair: false
  readonly shared: true
  readonly queue: false
}

// With a shorter ttl, the round trip to the server uses up the lease.
const minTtl = 20

const queueTraits: ZookeeperTraits = {
  modes: ['exclusive', 'shared', 'permits'] as const,
  fair: true,
  minTtl,
  shared: true,
  cells: true,
}
const simpleTraits: SimpleTraits = {
  modes: ['exclusive'] as const,
  fair: false,
  minTtl,
  shared: true,
  queue: false,
}

/** How long an operator's request waits for a server, in ms. */
const readTimeout = 10_000

/** The result of `zookeeper()`: pass it to `createLocks`, and use it for writes that a lease protects. */
export interface ZookeeperFactory extends DriverFactory<ZookeeperTraits> {
  /**
   * A `check` operation for your own `multi`, sent with any client. It checks that the lease's node exists, so the `multi` fails once the lease
   * is no longer held.
   * @throws StaleTokenError when no lease of this driver has that token (any more)
   */
  guard(lease: LeaseKey): Extract<MultiOperation, { type: 'check' }>
  /**
   * Runs your own `multi` only while the lease is held. If the ensemble does not answer, the `multi` is not retried.
   * @returns false when an operation was refused because of an existing or missing node, or a version: nothing was written
   * @throws StaleTokenError when the lease is not held: nothing was written; BackendError when the ensemble did not answer: it may have been
   */
  guardMulti(lease: LeaseKey, operations: readonly MultiOperation[]): Promise<boolean>
}

/**
 * Locks in ZooKeeper 3.5 or newer, a single server or an ensemble. The session client is our own.
 * @throws TypeError, RangeError for invalid options, before any I/O
 */
export function zookeeper(
  options: ZookeeperOptions & { readonly strategy: 'simple' },
): DriverFactory<SimpleTraits>
export function zookeeper(options: ZookeeperOptions): ZookeeperFactory
export function zookeeper(options: ZookeeperOptions): DriverFactory {
  const settings = parseOptions(options)
  const runtimes = new Set<Runtime>()
  const factory: DriverFactory = (env) => driverOver(settings, env, runtimes)
  return Object.assign(factory, {
    guard: (lease: LeaseKey) => leaseCheck(runtimes, lease),
    guardMulti: (lease: LeaseKey, operations: readonly MultiOperation[]) =>
      guardMulti(runtimes, lease, operations),
  })
}

/** A hold lasts no longer than its session, so the session bounds the ttl; a lockDelay is subtracted from it. */
function toTraits({ strategy, sessionTimeout, tickTime }: Settings): Traits {
  const own = strategy === 'simple' ? simpleTraits : queueTraits
  const maxTtl = maxLeaseTtl(sessionTimeout, tickTime)
  return Object.freeze({ ...own, maxTtl, maxLockDelay: maxLockDelay(sessionTimeout, tickTime) })
}

function driverOver(settings: Settings, env: Env, runtimes: Set<Runtime>): Driver {
  let runtime: Runtime | undefined
  let closed = false

  const open = (): Runtime => {
    if (closed) throw closedError()
    runtime ??= createRuntime(settings, env)
    runtimes.add(runtime)
    return runtime
  }

  return {
    name: 'zookeeper',
    traits: toTraits(settings),
    acquire: async (claim, wait) => acquire(open(), claim, wait),
    inspect: (name) => withRuntime(open, (runtime) => readStatus(runtime, name)),
    list: (prefix) => withRuntime(open, (runtime) => listNames(runtime, prefix)),
    forceRelease: (name) => withRuntime(open, forceRelease(name)),
    ...(settings.strategy === 'line' && { cells: cellsOver(open) }),
    async close() {
      closed = true
      await runtime?.close()
      if (runtime !== undefined) runtimes.delete(runtime)
    },
  }
}

/** A repeated claim gets the result of the first. A claim repeated after its release gets nothing. */
function acquire(runtime: Runtime, claim: Claim, wait: Wait): Promise<Grant | undefined> {
  const { attempt } = claim
  if (runtime.hasEnded(attempt)) return Promise.resolve(undefined)
  const known = runtime.claims.get(attempt)
  if (known !== undefined) {
    return orAborted(known, wait.signal).catch((error) => {
      if (wait.ended) return undefined
      throw error
    })
  }
  const answer: Promise<Hold | undefined> =
    runtime.settings.strategy === 'simple'
      ? acquireSimple(runtime, claim, wait)
      : new Waiter(runtime, claim, wait).acquire()
  runtime.claims.set(attempt, answer)
  const forget = (hold?: Hold) => {
    if (hold === undefined) runtime.claims.delete(attempt)
  }
  answer.then(forget, () => forget())
  return answer
}

async function listNames(runtime: Runtime, prefix: string) {
  const { session, settings } = runtime
  const root = settings.chroot === '' ? '/' : settings.chroot
  const children = (await session.call(getChildren(root)).catch(ignore(codes.noNode))) ?? []
  const names = children
    .map(decode)
    .filter((name) => name?.startsWith(prefix) === true)
    .filter((name) => name !== undefined)
  const statuses = await Promise.all(names.map((name) => readStatus(runtime, name)))
  return statuses
    .filter(({ holders, waiters }) => holders.length + waiters.length > 0)
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Runs `work` once connected, and retries when the connection breaks. @throws BackendError */
async function withRuntime<T>(open: () => Runtime, work: (runtime: Runtime) => Promise<T>): Promise<T> {
  const runtime = open()
  const { clock, session } = runtime
  const late = new AbortController()
  const giveUp = () => late.abort(session.failure ?? new Error(`no server answered within ${readTimeout} ms`))
  const limit = new TimeLimit(clock, readTimeout, giveUp).armSoon()
  try {
    for (;;) {
      try {
        await session.ready(late.signal)
        return await work(runtime)
      } catch (error) {
        if (runtime.closed) throw closedError()
        if (!isTransient(error) || late.signal.aborted || session.connected) throw toFailure(error)
      }
    }
  } finally {
    limit.stop()
  }
}
