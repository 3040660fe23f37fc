/** Holders and waiters for operators, read from the nodes. */
import type { Holder, LockStatus, Waiter } from '../../core/driver.js'
import { exclusive } from '../../core/mode.js'
import { grantedCount } from '../kit/sessions/order.js'
import { ignore } from './failure.js'
import { lockPath } from './keys.js'
import { inOrder, type QueueEntry } from './queue.js'
import { parseRecord } from './record.js'
import type { Runtime } from './runtime.js'
import { codes, getData, listing, remove, type Stat, sync } from './session/protocol.js'
import { holderToken } from './stamp.js'

interface ReadEntry {
  readonly entry: QueueEntry
  readonly data: Buffer
  readonly stat: Stat
  /** The transaction that last stamped the queue. */
  readonly stamp: bigint
}

export async function readStatus(runtime: Runtime, name: string): Promise<LockStatus> {
  const read = await readEntries(runtime, lockPath(runtime.settings.chroot, name))
  if (read.length > 0) await runtime.fetchServerTime().catch(() => undefined)
  // Without write permission, the newest node gives a lower bound of the time.
  const now = runtime.now() ?? Math.max(0, ...read.map(({ stat }) => stat.ctime))
  const held = grantedCount(read.map(({ entry }) => entry))
  return {
    name,
    holders: read.slice(0, held).map((one) => toHolder(one, now)),
    waiters: read.slice(held).map((one) => toWaiter(one, now)),
    lastToken: Math.max(0, ...read.slice(0, held).map(toToken)),
  }
}

/** The nodes of the holders, each with the transaction that created it. */
async function readHolderNodes(runtime: Runtime, name: string): Promise<ReadonlyMap<bigint, string>> {
  const lock = lockPath(runtime.settings.chroot, name)
  const read = await readEntries(runtime, lock)
  const held = read.slice(0, grantedCount(read.map(({ entry }) => entry)))
  return new Map(
    held.map(({ entry, stat }) => [stat.czxid, entry.node === '' ? lock : `${lock}/${entry.node}`]),
  )
}

/**
 * Removes the nodes of the holders. The returned function may be called again after a broken connection: it then removes the holders left of
 * the first call, and none that came later.
 */
export function forceRelease(name: string): (runtime: Runtime) => Promise<number> {
  let meant: ReadonlySet<bigint> | undefined
  const asked = new Set<bigint>()
  let taken = 0
  return async (runtime) => {
    const present = await readHolderNodes(runtime, name)
    meant ??= new Set(present.keys())
    for (const one of asked) if (!present.has(one)) taken++
    asked.clear()
    const removals = [...present].map(async ([made, node]) => {
      if (!meant?.has(made)) return
      asked.add(made)
      const gone = await runtime.session.call(remove(node)).then(() => 1, ignore(codes.noNode))
      asked.delete(made)
      taken += gone ?? 0
    })
    await Promise.all(removals)
    return taken
  }
}

async function readEntries(runtime: Runtime, lock: string): Promise<readonly ReadEntry[]> {
  const { session, settings } = runtime
  const absent = ignore(codes.noNode)
  const synced = session.call(sync(lock)).catch(absent)
  if (settings.strategy === 'simple') {
    const [answer] = await Promise.all([session.call(getData(lock)).catch(absent), synced])
    if (answer === undefined || answer.stat.ephemeralOwner === 0n) return []
    const { attempt = '' } = parseRecord(answer.data)
    return [{ entry: { node: '', number: 0, mode: exclusive, attempt }, ...answer, stamp: 0n }]
  }
  const [list] = await Promise.all([session.call(listing(lock)).catch(absent), synced])
  const stamp = list?.stat.mzxid ?? 0n
  const read = await Promise.all(
    inOrder(list?.children ?? []).map(async (entry) => {
      const answer = await session.call(getData(`${lock}/${entry.node}`)).catch(absent)
      return answer && { entry, ...answer, stamp }
    }),
  )
  return read.filter((one) => one !== undefined)
}

const toToken = ({ entry, stat, stamp }: ReadEntry): number => holderToken(entry, stat, stamp)

/** A holder is bound to its session: it does not expire by itself. */
function toHolder(read: ReadEntry, now: number): Holder {
  const { entry, data, stat } = read
  const { client, note } = parseRecord(data)
  return {
    attempt: entry.attempt,
    mode: entry.mode,
    token: toToken(read),
    heldFor: Math.max(0, now - stat.ctime),
    expiresIn: Number.POSITIVE_INFINITY,
    ...(client !== undefined && { client }),
    ...(note !== undefined && { note }),
  }
}

function toWaiter({ entry, data, stat }: ReadEntry, now: number): Waiter {
  const { client, note } = parseRecord(data)
  return {
    attempt: entry.attempt,
    mode: entry.mode,
    waitedFor: Math.max(0, now - stat.ctime),
    ...(client !== undefined && { client }),
    ...(note !== undefined && { note }),
  }
}
