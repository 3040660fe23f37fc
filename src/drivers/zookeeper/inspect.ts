/** Holders and waiters for operators, read from the nodes. */
import type { Holder, LockStatus, Waiter } from '../../core/driver.js'
import { exclusive } from '../../core/mode.js'
import { grantedCount } from '../kit/sessions/order.js'
import { ignore } from './failure.js'
import { pathOf } from './keys.js'
import { inOrder, type Place } from './queue.js'
import { readRecord } from './record.js'
import type { Desk } from './runtime.js'
import { codes, getData, listing, remove, type Stat, sync } from './session/protocol.js'
import { shownToken } from './stamp.js'

interface Seen {
  readonly place: Place
  readonly data: Buffer
  readonly stat: Stat
  /** The transaction that last stamped the queue. */
  readonly stamp: bigint
}

export async function standingOf(desk: Desk, name: string): Promise<LockStatus> {
  const seen = await look(desk, pathOf(desk.settings.chroot, name))
  if (seen.length > 0) await desk.askTime().catch(() => undefined)
  // Without write permission, the newest node gives a lower bound of the time.
  const now = desk.now() ?? Math.max(0, ...seen.map(({ stat }) => stat.ctime))
  const held = grantedCount(seen.map(({ place }) => place))
  return {
    name,
    holders: seen.slice(0, held).map((one) => holderOf(one, now)),
    waiters: seen.slice(held).map((one) => waiterOf(one, now)),
    lastToken: Math.max(0, ...seen.slice(0, held).map(tokenIn)),
  }
}

/** The nodes of the holders, each with the transaction that created it. */
async function holdersOf(desk: Desk, name: string): Promise<ReadonlyMap<bigint, string>> {
  const lock = pathOf(desk.settings.chroot, name)
  const seen = await look(desk, lock)
  const held = seen.slice(0, grantedCount(seen.map(({ place }) => place)))
  return new Map(
    held.map(({ place, stat }) => [stat.czxid, place.node === '' ? lock : `${lock}/${place.node}`]),
  )
}

/**
 * Removes the nodes of the holders. The returned function may be called again after a broken connection: it then removes the holders left of
 * the first call, and none that came later.
 */
export function forceRelease(name: string): (desk: Desk) => Promise<number> {
  let meant: ReadonlySet<bigint> | undefined
  const asked = new Set<bigint>()
  let taken = 0
  return async (desk) => {
    const present = await holdersOf(desk, name)
    meant ??= new Set(present.keys())
    for (const one of asked) if (!present.has(one)) taken++
    asked.clear()
    const removals = [...present].map(async ([made, node]) => {
      if (!meant?.has(made)) return
      asked.add(made)
      const gone = await desk.session.call(remove(node)).then(() => 1, ignore(codes.noNode))
      asked.delete(made)
      taken += gone ?? 0
    })
    await Promise.all(removals)
    return taken
  }
}

async function look(desk: Desk, lock: string): Promise<readonly Seen[]> {
  const { session, settings } = desk
  const absent = ignore(codes.noNode)
  const synced = session.call(sync(lock)).catch(absent)
  if (settings.strategy === 'simple') {
    const [answer] = await Promise.all([session.call(getData(lock)).catch(absent), synced])
    if (answer === undefined || answer.stat.ephemeralOwner === 0n) return []
    const { attempt = '' } = readRecord(answer.data)
    return [{ place: { node: '', number: 0, mode: exclusive, attempt }, ...answer, stamp: 0n }]
  }
  const [list] = await Promise.all([session.call(listing(lock)).catch(absent), synced])
  const stamp = list?.stat.mzxid ?? 0n
  const seen = await Promise.all(
    inOrder(list?.children ?? []).map(async (place) => {
      const answer = await session.call(getData(`${lock}/${place.node}`)).catch(absent)
      return answer && { place, ...answer, stamp }
    }),
  )
  return seen.filter((one) => one !== undefined)
}

const tokenIn = ({ place, stat, stamp }: Seen): number => shownToken(place, stat, stamp)

/** A holder is bound to its session: it does not expire by itself. */
function holderOf(seen: Seen, now: number): Holder {
  const { place, data, stat } = seen
  const { client, note } = readRecord(data)
  return {
    attempt: place.attempt,
    mode: place.mode,
    token: tokenIn(seen),
    heldFor: Math.max(0, now - stat.ctime),
    expiresIn: Number.POSITIVE_INFINITY,
    ...(client !== undefined && { client }),
    ...(note !== undefined && { note }),
  }
}

function waiterOf({ place, data, stat }: Seen, now: number): Waiter {
  const { client, note } = readRecord(data)
  return {
    attempt: place.attempt,
    mode: place.mode,
    waitedFor: Math.max(0, now - stat.ctime),
    ...(client !== undefined && { client }),
    ...(note !== undefined && { note }),
  }
}
