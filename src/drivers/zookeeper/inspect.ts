/** Who holds and who waits, for operators: read from the nodes. */
import type { Holder, Standing, Waiter } from '../../core/driver.js'
import { exclusive } from '../../core/mode.js'
import type { Desk } from './desk.js'
import { pathOf } from './keys.js'
import { holding, inOrder, type Place } from './line.js'
import { readRecord } from './record.js'
import { codes, getChildren, getData, type Stat, sync } from './session/protocol.js'
import { ignore } from './trouble.js'

interface Seen {
  readonly place: Place
  readonly data: Buffer
  readonly stat: Stat
}

export async function standingOf(desk: Desk, name: string): Promise<Standing> {
  const seen = await look(desk, pathOf(desk.settings.chroot, name))
  if (seen.length > 0) await desk.askTime().catch(() => undefined)
  // Without the right to write anywhere the newest node tells the least the time can be.
  const now = desk.now() ?? Math.max(0, ...seen.map(({ stat }) => stat.ctime))
  const held = holding(seen.map(({ place }) => place))
  return {
    name,
    holders: seen.slice(0, held).map((one) => holderOf(one, now)),
    waiters: seen.slice(held).map((one) => waiterOf(one, now)),
    lastToken: Math.max(0, ...seen.slice(0, held).map(({ stat }) => Number(stat.czxid))),
  }
}

/** The nodes of those who hold, to be removed by force. */
export async function holdersOf(desk: Desk, name: string): Promise<readonly string[]> {
  const lock = pathOf(desk.settings.chroot, name)
  const seen = await look(desk, lock)
  return seen
    .slice(0, holding(seen.map(({ place }) => place)))
    .map(({ place }) => (place.node === '' ? lock : `${lock}/${place.node}`))
}

async function look(desk: Desk, lock: string): Promise<readonly Seen[]> {
  const { session, settings } = desk
  const absent = ignore(codes.noNode)
  const synced = session.call(sync(lock)).catch(absent)
  if (settings.strategy === 'simple') {
    const [answer] = await Promise.all([session.call(getData(lock)).catch(absent), synced])
    if (answer === undefined || answer.stat.ephemeralOwner === 0n) return []
    const { attempt = '' } = readRecord(answer.data)
    return [{ place: { node: '', number: 0, mode: exclusive, attempt }, ...answer }]
  }
  const [children = []] = await Promise.all([session.call(getChildren(lock)).catch(absent), synced])
  const seen = await Promise.all(
    inOrder(children).map(async (place) => {
      const answer = await session.call(getData(`${lock}/${place.node}`)).catch(absent)
      return answer && { place, ...answer }
    }),
  )
  return seen.filter((one) => one !== undefined)
}

/** Bound to its session: it does not run out by itself. */
function holderOf({ place, data, stat }: Seen, now: number): Holder {
  const { by, note } = readRecord(data)
  return {
    attempt: place.attempt,
    mode: place.mode,
    token: Number(stat.czxid),
    heldFor: Math.max(0, now - stat.ctime),
    expiresIn: Number.POSITIVE_INFINITY,
    ...(by !== undefined && { by }),
    ...(note !== undefined && { note }),
  }
}

function waiterOf({ place, data, stat }: Seen, now: number): Waiter {
  const { by, note } = readRecord(data)
  return {
    attempt: place.attempt,
    mode: place.mode,
    waitedFor: Math.max(0, now - stat.ctime),
    ...(by !== undefined && { by }),
    ...(note !== undefined && { note }),
  }
}
