/**
 * State that the parts of the driver share: the session, the waiters, the holds, and the nodes still to be removed.
 *
 * Long because node creation and removal share the session with the waiters and the holds.
 */
import type { Clock } from '../../core/clock.js'
import type { Claim, Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { closedError, ignore, isCode, isTransient } from './failure.js'
import type { Hold } from './hold.js'
import { parentPaths } from './keys.js'
import type { Settings } from './options.js'
import { parseEntry } from './queue.js'
import { createSession } from './session/create-session.js'
import { maxLockDelay, minTicks } from './session/heartbeat-timing.js'
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
import type { Session } from './session/session.js'

/** A waiting claim. It is notified of trouble, and woken when the session ends. */
export interface PendingClaim {
  wake(): void
  onFailure(error: Error): void
}

/** A node of ours. */
export interface OwnNode {
  /** The path of the lock's node. */
  readonly lock: string
  readonly attempt: string
  /** The path of the node itself. Undefined: a create was not answered, so the node may or may not exist. */
  readonly path: string | undefined
  /** The session that the node belongs to. */
  readonly session: bigint
}

export type RemoveResult = 'removed' | 'absent' | 'ended'

export interface Runtime {
  readonly clock: Clock
  readonly random: () => number
  readonly client: string
  readonly settings: Settings
  readonly acl: readonly AclEntry[]
  readonly session: Session
  readonly pendingClaims: Set<PendingClaim>
  readonly holds: Set<Hold>
  /** The results by attempt id, for repeated claims. */
  readonly claims: Map<string, Promise<Hold | undefined>>
  /** Removes a node. Rejects when the connection breaks; the runtime then removes the node once it is connected again. */
  remove(own: OwnNode): Promise<RemoveResult>
  /**
   * Like `remove`, but when the connection breaks it resolves once the node is removed. Rejects when the removal is refused, or when the
   * driver closes first.
   */
  removeOrRetry(own: OwnNode): Promise<RemoveResult>
  /** @throws BackendError when the servers granted a session too short for the tick, or for this claim's `lockDelay` */
  assertDelayFits(claim: Claim): void
  /** Creates the node of a lock and its missing parents. */
  makeLock(path: string): Promise<void>
  /** Creates the missing parents of a node. */
  makeParents(path: string): Promise<void>
  readonly closed: boolean
  /** The current time on the leader's clock in ms, from its last answer. Undefined: not known yet. */
  now(): number | undefined
  noteServerTime(stat: Stat): void
  /** Fetches the leader's time with a write, if it is unknown or was last reported long ago. */
  fetchServerTime(): Promise<void>
  /** Records that an attempt is over: a repeated claim with this id gets nothing. */
  rememberEnded(attempt: string): void
  hasEnded(attempt: string): boolean
  close(): Promise<void>
}

/** The number of ended attempts to remember: a repeated claim comes soon after the first, if at all. */
const maxEnded = 1_000
/** The leader's time is fetched again after this many ms: the leader may have changed, or its clock may have been set. */
const serverTimeMaxAge = 60_000
const nothing = Buffer.alloc(0)

// A long function, because its operations share the session and the lists.
export function createRuntime(settings: Settings, env: Env): Runtime {
  const { clock } = env
  const pendingClaims = new Set<PendingClaim>()
  const holds = new Set<Hold>()
  const pendingRemovals = new Set<OwnNode>()
  /** The callers that wait for an owed removal. */
  const removalCallbacks = new Map<OwnNode, (answer: Promise<RemoveResult>) => void>()
  const ended = new Set<string>()
  const simple = settings.strategy === 'simple'
  let closed = false
  let leader: { readonly wall: number; readonly at: number } | undefined

  const session = createSession(settings, clock, env.random, {
    onResumed() {
      for (const hold of holds) hold.resumed()
      for (const own of [...pendingRemovals]) void retryRemoval(own)
    },
    onSuspended() {
      for (const hold of holds) hold.suspended()
    },
    onFailure(error) {
      for (const pending of pendingClaims) pending.onFailure(error)
    },
    onExpired() {
      pendingRemovals.clear()
      for (const own of [...removalCallbacks.keys()]) settleRemoval(own, Promise.resolve('ended'))
      for (const hold of [...holds]) hold.expired()
      for (const pending of [...pendingClaims]) pending.wake()
    },
  })

  function settleRemoval(own: OwnNode, answer: Promise<RemoveResult>): void {
    pendingRemovals.delete(own)
    answer.catch(() => undefined)
    removalCallbacks.get(own)?.(answer)
    removalCallbacks.delete(own)
  }

  /** Removes an owed node. If the connection breaks again, the node waits for the next one. */
  async function retryRemoval(own: OwnNode): Promise<void> {
    try {
      if (own.session === session.id) await (simple ? removeSimple(own) : removeAll(own))
      // Removed by this request, or by the earlier one that was not answered.
      settleRemoval(own, Promise.resolve('removed'))
    } catch (error) {
      if (!isTransient(error)) settleRemoval(own, Promise.reject(error))
    }
  }

  /** Removes every node with the attempt id. It reads after a `sync`, so that it sees a create in flight through another server. */
  async function removeAll({ lock, attempt }: OwnNode): Promise<void> {
    const synced = session.call(sync(lock))
    const listed = session.call(getChildren(lock))
    await Promise.all([synced, listed].map((promise) => promise.catch(ignore(codes.noNode))))
    const children = await listed.catch(ignore(codes.noNode))
    const ours = (children ?? []).filter((node) => parseEntry(node)?.attempt === attempt)
    await Promise.all(ours.map((node) => session.call(remove(`${lock}/${node}`)).catch(ignore(codes.noNode))))
  }

  /** Removes the shared node only while it is ours. Between the read and the removal, only a force-release can change it. */
  async function removeSimple({ lock, attempt, session: id }: OwnNode): Promise<RemoveResult> {
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

  async function removeOwn(own: OwnNode): Promise<RemoveResult> {
    if (own.session !== session.id) return 'ended'
    try {
      if (simple) return await removeSimple(own)
      if (own.path === undefined) await removeAll(own)
      else await session.call(remove(own.path))
      return 'removed'
    } catch (error) {
      if (isCode(error, codes.noNode)) return 'absent'
      if (isTransient(error) && own.session === session.id) pendingRemovals.add(own)
      throw error
    }
  }

  async function removeOrRetry(own: OwnNode): Promise<RemoveResult> {
    try {
      return await removeOwn(own)
    } catch (error) {
      if (!pendingRemovals.has(own) || closed) throw error
      return new Promise((resolve) => removalCallbacks.set(own, resolve))
    }
  }

  const one = (node: string, flag: number) => session.call(create(node, nothing, settings.acl, flag))

  async function makeParents(path: string): Promise<void> {
    for (const node of parentPaths(path)) {
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
    client: env.client,
    settings,
    acl: settings.acl,
    session,
    pendingClaims,
    holds,
    claims: new Map(),
    remove: removeOwn,
    removeOrRetry,
    assertDelayFits({ lockDelay = 0 }) {
      const { tickTime } = settings
      if (session.timeout < minTicks * tickTime) {
        const tooShort = `the servers granted a session of ${session.timeout} ms, which is less than ${minTicks} ticks of ${tickTime} ms, so no lease can rely on it`
        const remedy = `set tickTime to the servers' own, or their maxSessionTimeout to ${minTicks * tickTime} or more`
        throw new BackendError('zookeeper', `${tooShort}; ${remedy}`)
      }
      const most = maxLockDelay(session.timeout, tickTime)
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
    noteServerTime(stat) {
      leader = { wall: Math.max(stat.ctime, stat.mtime), at: clock.now() }
    },
    async fetchServerTime() {
      if (leader !== undefined && clock.now() - leader.at < serverTimeMaxAge) return
      const stat = await session.call(setData(settings.chroot === '' ? '/' : settings.chroot, nothing))
      this.noteServerTime(stat)
    },
    rememberEnded(attempt) {
      ended.add(attempt)
      const [oldest] = ended
      if (ended.size > maxEnded && oldest !== undefined) ended.delete(oldest)
    },
    hasEnded: (attempt) => ended.has(attempt),
    async close() {
      closed = true
      for (const pending of [...pendingClaims]) pending.wake()
      await session.close()
      const gone = closedError()
      for (const own of [...removalCallbacks.keys()]) settleRemoval(own, Promise.reject(gone))
      for (const hold of [...holds]) hold.expired()
    },
  }
}
