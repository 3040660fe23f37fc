/** The driver: `waiter.ts` asks and `hold.ts` keeps, over the one session of this process; this hands out. */
import type { Claim, Driver, DriverFactory, Env, Grant, Traits, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { unlessAborted } from '../../core/unless-aborted.js'
import type { Guarded } from '../kit/guarded.js'
import { cellsOver } from './cells.js'
import { createDesk, type Desk } from './desk.js'
import { checkOf, guardMulti, type MultiOperation } from './guard.js'
import type { Hold } from './hold.js'
import { forceRelease, standingOf } from './inspect.js'
import { decode } from './keys.js'
import { type Settings, settingsOf, type ZookeeperOptions } from './options.js'
import { mostDelay } from './session/clockwork.js'
import { codes, getChildren } from './session/protocol.js'
import { standSimply } from './simple.js'
import { ignore, isPassing, troubleOf } from './trouble.js'
import { Waiter } from './waiter.js'

export interface ZookeeperTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
}

/** Of `strategy: 'simple'`. */
export interface SimpleTraits extends Traits {
  readonly modes: readonly ['exclusive']
  readonly fair: false
  readonly shared: true
  readonly line: false
}

// Below that, the way to the server and back eats up a lease.
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
  line: false,
}

/** How long a question of an operator waits for a server, in ms. */
const patience = 10_000

/** What `zookeeper()` gives: for `createLocks`, and for writing under the protection of a lease. */
export interface ZookeeperFactory extends DriverFactory<ZookeeperTraits> {
  /**
   * The part of a `multi` of your own, with any client, that fails once the lease is not held any more: it checks that the node of the hold
   * is there.
   * @throws StaleTokenError when no lease of this driver has that token (any more)
   */
  guard(lease: Guarded): Extract<MultiOperation, { type: 'check' }>
  /**
   * A `multi` of your own that is carried out only while the lease holds. False: one of the operations was refused for what is there, or its
   * version, and nothing was done. Without an answer it is not sent again.
   * @throws StaleTokenError when it does not hold: nothing was written; BackendError when the ensemble gave no answer, and it may have been
   */
  guardMulti(lease: Guarded, operations: readonly MultiOperation[]): Promise<boolean>
}

/**
 * Locks in ZooKeeper 3.5 or newer, single or as an ensemble, over a session client of our own.
 * @throws TypeError, RangeError for bad options, before any I/O
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
    guard: (lease: Guarded) => checkOf(desks, lease),
    guardMulti: (lease: Guarded, operations: readonly MultiOperation[]) =>
      guardMulti(desks, lease, operations),
  })
}

/** A hold is there for as long as its session, so a delay is taken off what is relied upon of that. */
function traitsOf({ strategy, sessionTimeout }: Settings): Traits {
  const own = strategy === 'simple' ? simply : inLine
  return Object.freeze({ ...own, maxLockDelay: mostDelay(sessionTimeout) })
}

function driverOver(settings: Settings, env: Env, desks: Set<Desk>): Driver {
  let desk: Desk | undefined
  let closed = false

  const open = (): Desk => {
    if (closed) throw new BackendError('zookeeper', 'these locks were closed', { closed: true })
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

/** A claim that comes twice gets what the first got; one that comes after its release gets nothing. */
function take(desk: Desk, claim: Claim, wait: Wait): Promise<Grant | undefined> {
  const { attempt } = claim
  if (desk.isOver(attempt)) return Promise.resolve(undefined)
  const known = desk.claims.get(attempt)
  if (known !== undefined) {
    return unlessAborted(known, wait.signal).catch((error) => {
      if (wait.over) return undefined
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

/** Asks once the server is there, and once more when the connection breaks. @throws BackendError */
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
        if (!isPassing(error) || late.signal.aborted || session.connected) throw troubleOf(error)
      }
    }
  } finally {
    stop()
  }
}
