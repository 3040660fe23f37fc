/**
 * Long because removing and making nodes share the session with those who wait and hold.
 *
 * What the parts of the driver share: the session, who waits and who holds, and what is still to be removed.
 */
import type { Clock } from '../../core/clock.js'
import type { Claim, Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import type { Hold } from './hold.js'
import { parentsOf } from './keys.js'
import { placeOf } from './line.js'
import type { Settings } from './options.js'
import { mostDelay } from './session/clockwork.js'
import {
  type AclEntry,
  codes,
  create,
  flags,
  getChildren,
  getData,
  remove,
  type Stat,
  setData,
  sync,
} from './session/protocol.js'
import { createSession, type Session } from './session/session.js'
import { ignore, isCode, isPassing } from './trouble.js'

/** A claim that waits: it hears of trouble, and is woken when the session has ended. */
export interface Standing {
  wake(): void
  troubled(error: Error): void
}

/** A node of ours. */
export interface Own {
  /** The lock's. */
  readonly lock: string
  readonly attempt: string
  /** Of the node itself; undefined: a create was not answered, and it may be there or not. */
  readonly path: string | undefined
  /** The session it belongs to. */
  readonly session: bigint
}

export type Removed = 'removed' | 'absent' | 'ended'

export interface Desk {
  readonly clock: Clock
  readonly by: string
  readonly settings: Settings
  readonly acl: readonly AclEntry[]
  readonly session: Session
  readonly standings: Set<Standing>
  readonly holds: Set<Hold>
  /** By attempt: what a claim that comes twice gets. */
  readonly claims: Map<string, Promise<Hold | undefined>>
  /** Removes a node. Rejects when the connection breaks; it is then removed as soon as there is one again. */
  remove(own: Own): Promise<Removed>
  /** As `remove`, but resolves also then, once it is removed. Rejects when it is refused, or the driver is closed before that. */
  giveBack(own: Own): Promise<Removed>
  /** @throws BackendError when the servers granted a session too short for the lock-delay of this claim */
  assertLasts(claim: Claim): void
  /** Makes the node of a lock and what is missing above it. */
  makeLock(path: string): Promise<void>
  /** Makes what is missing above a node. */
  makeParents(path: string): Promise<void>
  readonly closed: boolean
  /** The present time in ms by the leader's clock, as last told; undefined: not told yet. */
  now(): number | undefined
  told(stat: Stat): void
  /** Asks for the leader's time by a write, if it is not known or was told long ago. */
  askTime(): Promise<void>
  /** Remembers that an attempt is over: a claim of it that comes once more gets nothing. */
  over(attempt: string): void
  isOver(attempt: string): boolean
  close(): Promise<void>
}

/** So many ended attempts are remembered: a repeated claim comes soon after the first, if at all. */
const remembered = 1_000
/** After so many ms the leader's time is asked again: there may be another leader, or its clock was set. */
const timeLasts = 60_000
const nothing = Buffer.alloc(0)

// Longer than a function should be: the verbs share the session and the lists.
export function createDesk(settings: Settings, env: Env): Desk {
  const { clock } = env
  const standings = new Set<Standing>()
  const holds = new Set<Hold>()
  const owed = new Set<Own>()
  /** Who waits for that. */
  const hearing = new Map<Own, (answer: Promise<Removed>) => void>()
  const ended = new Set<string>()
  const simple = settings.strategy === 'simple'
  let closed = false
  let leader: { readonly wall: number; readonly at: number } | undefined

  const session = createSession(settings, clock, env.random, {
    resumed() {
      for (const hold of holds) hold.resumed()
      for (const own of [...owed]) void settle(own)
    },
    suspended() {
      for (const hold of holds) hold.suspended()
    },
    troubled(error) {
      for (const standing of standings) standing.troubled(error)
    },
    expired() {
      owed.clear()
      for (const own of [...hearing.keys()]) tell(own, Promise.resolve('ended'))
      for (const hold of [...holds]) hold.expired()
      for (const standing of [...standings]) standing.wake()
    },
  })

  function tell(own: Own, answer: Promise<Removed>): void {
    owed.delete(own)
    answer.catch(() => undefined)
    hearing.get(own)?.(answer)
    hearing.delete(own)
  }

  /** Removes what is owed; what fails again waits for the next connection. */
  async function settle(own: Own): Promise<void> {
    try {
      if (own.session === session.id) await (simple ? removeSimple(own) : removeAll(own))
      // By this request, or by the one that was not answered.
      tell(own, Promise.resolve('removed'))
    } catch (error) {
      if (!isPassing(error)) tell(own, Promise.reject(error))
    }
  }

  /** Whatever bears the attempt. After `sync`, for a create that was under way elsewhere must be seen. */
  async function removeAll({ lock, attempt }: Own): Promise<void> {
    const synced = session.call(sync(lock))
    const listed = session.call(getChildren(lock))
    await Promise.all([synced, listed].map((promise) => promise.catch(ignore(codes.noNode))))
    const children = await listed.catch(ignore(codes.noNode))
    const ours = (children ?? []).filter((node) => placeOf(node)?.attempt === attempt)
    await Promise.all(ours.map((node) => session.call(remove(`${lock}/${node}`)).catch(ignore(codes.noNode))))
  }

  /** The node that all share is removed only while it is ours. Between look and removal it can change by force alone. */
  async function removeSimple({ lock, attempt, session: id }: Own): Promise<Removed> {
    try {
      await session.call(sync(lock)).catch(ignore(codes.noNode))
      const { data, stat } = await session.call(getData(lock))
      if (stat.ephemeralOwner !== id || !data.toString().includes(`"${attempt}"`)) return 'absent'
      await session.call(remove(lock))
      return 'removed'
    } catch (error) {
      if (isCode(error, codes.noNode)) return 'absent'
      throw error
    }
  }

  async function removeOwn(own: Own): Promise<Removed> {
    if (own.session !== session.id) return 'ended'
    try {
      if (simple) return await removeSimple(own)
      if (own.path === undefined) await removeAll(own)
      else await session.call(remove(own.path))
      return 'removed'
    } catch (error) {
      if (isCode(error, codes.noNode)) return 'absent'
      if (isPassing(error) && own.session === session.id) owed.add(own)
      throw error
    }
  }

  async function giveBack(own: Own): Promise<Removed> {
    try {
      return await removeOwn(own)
    } catch (error) {
      if (!owed.has(own) || closed) throw error
      return new Promise((resolve) => hearing.set(own, resolve))
    }
  }

  const one = (node: string, flag: number) => session.call(create(node, nothing, settings.acl, flag))

  async function makeParents(path: string): Promise<void> {
    for (const node of parentsOf(path)) {
      // Without the right to create above the chroot, what is there will do.
      await one(node, flags.persistent).catch(ignore(codes.nodeExists, codes.noAuth))
    }
  }

  async function makeLock(path: string): Promise<void> {
    await makeParents(path)
    if (simple) return
    // A container: the server removes it some time after its last child has gone.
    await one(path, flags.container)
      .catch((error) => {
        if (isCode(error, codes.unimplemented)) return one(path, flags.persistent)
        throw error
      })
      .catch(ignore(codes.nodeExists))
  }

  return {
    clock,
    by: env.by,
    settings,
    acl: settings.acl,
    session,
    standings,
    holds,
    claims: new Map(),
    remove: removeOwn,
    giveBack,
    assertLasts({ lockDelay = 0 }) {
      const most = mostDelay(session.timeout)
      if (lockDelay <= most) return
      const short = `the servers granted a session of ${session.timeout} ms, which is too short for a lockDelay of ${lockDelay} ms`
      throw new BackendError('zookeeper', `${short}; it can be ${most}`)
    },
    makeLock,
    makeParents,
    get closed() {
      return closed
    },
    now: () => leader && leader.wall + (clock.now() - leader.at),
    told(stat) {
      leader = { wall: Math.max(stat.ctime, stat.mtime), at: clock.now() }
    },
    async askTime() {
      if (leader !== undefined && clock.now() - leader.at < timeLasts) return
      const stat = await session.call(setData(settings.chroot === '' ? '/' : settings.chroot, nothing))
      this.told(stat)
    },
    over(attempt) {
      ended.add(attempt)
      const [oldest] = ended
      if (ended.size > remembered && oldest !== undefined) ended.delete(oldest)
    },
    isOver: (attempt) => ended.has(attempt),
    async close() {
      closed = true
      for (const standing of [...standings]) standing.wake()
      await session.close()
      const gone = new BackendError('zookeeper', 'these locks were closed', { closed: true })
      for (const own of [...hearing.keys()]) tell(own, Promise.reject(gone))
      for (const hold of [...holds]) hold.expired()
    },
  }
}
