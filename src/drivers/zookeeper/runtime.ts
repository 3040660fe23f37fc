/**
 * State that the parts of the driver share: the session, the waiters, the holds, and the nodes still to be removed.
 *
 * Long because node creation and removal share the session with the waiters and the holds.
 */
import type { Clock } from '../../core/clock.js'
import type { Claim, Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { closedError, ignore, isCode, isPassing } from './failure.js'
import type { Hold } from './hold.js'
import { parentsOf } from './keys.js'
import type { Settings } from './options.js'
import { placeOf } from './queue.js'
import { leastTicks, mostDelay } from './session/heartbeat-timing.js'
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

/** A waiting claim. It is notified of trouble, and woken when the session ends. */
export interface Standing {
  wake(): void
  troubled(error: Error): void
}

/** A node of ours. */
export interface Own {
  /** The path of the lock's node. */
  readonly lock: string
  readonly attempt: string
  /** The path of the node itself. Undefined: a create was not answered, so the node may or may not exist. */
  readonly path: string | undefined
  /** The session that the node belongs to. */
  readonly session: bigint
}

export type Removed = 'removed' | 'absent' | 'ended'

export interface Desk {
  readonly clock: Clock
  readonly random: () => number
  readonly by: string
  readonly settings: Settings
  readonly acl: readonly AclEntry[]
  readonly session: Session
  readonly standings: Set<Standing>
  readonly holds: Set<Hold>
  /** The results by attempt id, for repeated claims. */
  readonly claims: Map<string, Promise<Hold | undefined>>
  /** Removes a node. Rejects when the connection breaks; the desk then removes the node once it is connected again. */
  remove(own: Own): Promise<Removed>
  /**
   * Like `remove`, but when the connection breaks it resolves once the node is removed. Rejects when the removal is refused, or when the
   * driver closes first.
   */
  giveBack(own: Own): Promise<Removed>
  /** @throws BackendError when the servers granted a session too short for the tick, or for this claim's `lockDelay` */
  assertLasts(claim: Claim): void
  /** Creates the node of a lock and its missing parents. */
  makeLock(path: string): Promise<void>
  /** Creates the missing parents of a node. */
  makeParents(path: string): Promise<void>
  readonly closed: boolean
  /** The current time on the leader's clock in ms, from its last answer. Undefined: not known yet. */
  now(): number | undefined
  told(stat: Stat): void
  /** Fetches the leader's time with a write, if it is unknown or was last reported long ago. */
  askTime(): Promise<void>
  /** Records that an attempt is over: a repeated claim with this id gets nothing. */
  over(attempt: string): void
  isOver(attempt: string): boolean
  close(): Promise<void>
}

/** The number of ended attempts to remember: a repeated claim comes soon after the first, if at all. */
const remembered = 1_000
/** The leader's time is fetched again after this many ms: the leader may have changed, or its clock may have been set. */
const timeLasts = 60_000
const nothing = Buffer.alloc(0)

// A long function, because its operations share the session and the lists.
export function createDesk(settings: Settings, env: Env): Desk {
  const { clock } = env
  const standings = new Set<Standing>()
  const holds = new Set<Hold>()
  const owed = new Set<Own>()
  /** The callers that wait for an owed removal. */
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

  /** Removes an owed node. If the connection breaks again, the node waits for the next one. */
  async function settle(own: Own): Promise<void> {
    try {
      if (own.session === session.id) await (simple ? removeSimple(own) : removeAll(own))
      // Removed by this request, or by the earlier one that was not answered.
      tell(own, Promise.resolve('removed'))
    } catch (error) {
      if (!isPassing(error)) tell(own, Promise.reject(error))
    }
  }

  /** Removes every node with the attempt id. It reads after a `sync`, so that it sees a create in flight through another server. */
  async function removeAll({ lock, attempt }: Own): Promise<void> {
    const synced = session.call(sync(lock))
    const listed = session.call(getChildren(lock))
    await Promise.all([synced, listed].map((promise) => promise.catch(ignore(codes.noNode))))
    const children = await listed.catch(ignore(codes.noNode))
    const ours = (children ?? []).filter((node) => placeOf(node)?.attempt === attempt)
    await Promise.all(ours.map((node) => session.call(remove(`${lock}/${node}`)).catch(ignore(codes.noNode))))
  }

  /** Removes the shared node only while it is ours. Between the read and the removal, only a force-release can change it. */
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
      // Without the right to create parents, the existing nodes must do.
      await one(node, flags.persistent).catch(ignore(codes.nodeExists, codes.noAuth))
    }
  }

  async function makeLock(path: string): Promise<void> {
    await makeParents(path)
    if (simple) return
    // A container node: the server removes it some time after its last child is gone.
    await one(path, flags.container)
      .catch((error) => {
        if (isCode(error, codes.unimplemented)) return one(path, flags.persistent)
        throw error
      })
      .catch(ignore(codes.nodeExists))
  }

  return {
    clock,
    random: env.random,
    by: env.client,
    settings,
    acl: settings.acl,
    session,
    standings,
    holds,
    claims: new Map(),
    remove: removeOwn,
    giveBack,
    assertLasts({ lockDelay = 0 }) {
      const { tickTime } = settings
      if (session.timeout < leastTicks * tickTime) {
        const tooShort = `the servers granted a session of ${session.timeout} ms, which is less than ${leastTicks} ticks of ${tickTime} ms, so no lease can rely on it`
        const remedy = `set tickTime to the servers' own, or their maxSessionTimeout to ${leastTicks * tickTime} or more`
        throw new BackendError('zookeeper', `${tooShort}; ${remedy}`)
      }
      const most = mostDelay(session.timeout, tickTime)
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
      const gone = closedError()
      for (const own of [...hearing.keys()]) tell(own, Promise.reject(gone))
      for (const hold of [...holds]) hold.expired()
    },
  }
}
