/** The driver. `waiter.ts` acquires and `hold.ts` maintains a lease; both use the one session of this process. */
import type { Claim, Driver, DriverFactory, Env, Grant, Traits, Wait } from '../../core/driver.js'
import { orAborted } from '../../core/or-aborted.js'
import type { LeaseKey } from '../kit/lease-index.js'
import { cellsOver } from './cells.js'
import { closedError, ignore, isPassing, troubleOf } from './failure.js'
import { checkOf, guardMulti, type MultiOperation } from './guard.js'
import type { Hold } from './hold.js'
import { forceRelease, standingOf } from './inspect.js'
import { decode } from './keys.js'
import { type Settings, settingsOf, type ZookeeperOptions } from './options.js'
import { createDesk, type Desk } from './runtime.js'
import { mostDelay, worthOf } from './session/heartbeat-timing.js'
import { codes, getChildren } from './session/protocol.js'
import { standSimply } from './simple.js'
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

const inLine: ZookeeperTraits = {
  modes: ['exclusive', 'shared', 'permits'] as const,
  fair: true,
  minTtl,
  shared: true,
  cells: true,
}
const simply: SimpleTraits = {
  modes: ['exclusive'] as const,
  fair: false,
  minTtl,
  shared: true,
  queue: false,
}

/** How long an operator's request waits for a server, in ms. */
const patience = 10_000

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
  const settings = settingsOf(options)
  const desks = new Set<Desk>()
  const factory: DriverFactory = (env) => driverOver(settings, env, desks)
  return Object.assign(factory, {
    guard: (lease: LeaseKey) => checkOf(desks, lease),
    guardMulti: (lease: LeaseKey, operations: readonly MultiOperation[]) =>
      guardMulti(desks, lease, operations),
  })
}

/** A hold lasts no longer than its session, so the session bounds the ttl; a lockDelay is subtracted from it. */
function traitsOf({ strategy, sessionTimeout, tickTime }: Settings): Traits {
  const own = strategy === 'simple' ? simply : inLine
  const maxTtl = worthOf(sessionTimeout, tickTime)
  return Object.freeze({ ...own, maxTtl, maxLockDelay: mostDelay(sessionTimeout, tickTime) })
}

function driverOver(settings: Settings, env: Env, desks: Set<Desk>): Driver {
  let desk: Desk | undefined
  let closed = false

  const open = (): Desk => {
    if (closed) throw closedError()
    desk ??= createDesk(settings, env)
    desks.add(desk)
    return desk
  }

  return {
    name: 'zookeeper',
    traits: traitsOf(settings),
    acquire: async (claim, wait) => take(open(), claim, wait),
    inspect: (name) => told(open, (desk) => standingOf(desk, name)),
    list: (prefix) => told(open, (desk) => listed(desk, prefix)),
    forceRelease: (name) => told(open, forceRelease(name)),
    ...(settings.strategy === 'line' && { cells: cellsOver(open) }),
    async close() {
      closed = true
      await desk?.close()
      if (desk !== undefined) desks.delete(desk)
    },
  }
}

/** A repeated claim gets the result of the first. A claim repeated after its release gets nothing. */
function take(desk: Desk, claim: Claim, wait: Wait): Promise<Grant | undefined> {
  const { attempt } = claim
  if (desk.isOver(attempt)) return Promise.resolve(undefined)
  const known = desk.claims.get(attempt)
  if (known !== undefined) {
    return orAborted(known, wait.signal).catch((error) => {
      if (wait.ended) return undefined
      throw error
    })
  }
  const answer: Promise<Hold | undefined> =
    desk.settings.strategy === 'simple'
      ? standSimply(desk, claim, wait)
      : new Waiter(desk, claim, wait).stand()
  desk.claims.set(attempt, answer)
  const forget = (hold?: Hold) => {
    if (hold === undefined) desk.claims.delete(attempt)
  }
  answer.then(forget, () => forget())
  return answer
}

async function listed(desk: Desk, prefix: string) {
  const { session, settings } = desk
  const root = settings.chroot === '' ? '/' : settings.chroot
  const children = (await session.call(getChildren(root)).catch(ignore(codes.noNode))) ?? []
  const names = children
    .map(decode)
    .filter((name) => name?.startsWith(prefix) === true)
    .filter((name) => name !== undefined)
  const standings = await Promise.all(names.map((name) => standingOf(desk, name)))
  return standings
    .filter(({ holders, waiters }) => holders.length + waiters.length > 0)
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Runs `work` once connected, and retries when the connection breaks. @throws BackendError */
async function told<T>(open: () => Desk, work: (desk: Desk) => Promise<T>): Promise<T> {
  const desk = open()
  const { clock, session } = desk
  const late = new AbortController()
  const stop = clock.at(clock.now() + patience, () =>
    late.abort(session.trouble ?? new Error(`no server answered within ${patience} ms`)),
  )
  try {
    for (;;) {
      try {
        await session.ready(late.signal)
        return await work(desk)
      } catch (error) {
        if (desk.closed) throw closedError()
        if (!isPassing(error) || late.signal.aborted || session.connected) throw troubleOf(error)
      }
    }
  } finally {
    stop()
  }
}
