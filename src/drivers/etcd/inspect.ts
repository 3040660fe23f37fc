/** What operators see: read, never decided on. */
import type { Standing } from '../../core/driver.js'
import { holdersIn } from '../kit/line.js'
import type { Desk } from './desk.js'
import { encode, nameOf, rangeOf } from './keys.js'
import { inOrder } from './line.js'
import { holderOf, type Place } from './place.js'
import { take } from './txns.js'
import type { KeyValue } from './wire.js'

export async function inspect(desk: Desk, name: string): Promise<Standing> {
  const { is } = await desk.client.range(desk.line(name).all)
  return standingOf(desk, name, inOrder(is.kvs))
}

export async function list(desk: Desk, beginning: string): Promise<readonly Standing[]> {
  const { prefix } = desk.settings
  const { is } = await desk.client.range(rangeOf(prefix + encode(beginning)))
  const lines = new Map<string, KeyValue[]>()
  for (const kv of is.kvs ?? []) {
    const name = nameOf(prefix, kv)
    if (name === undefined || !name.startsWith(beginning)) continue
    const line = lines.get(name)
    if (line === undefined) lines.set(name, [kv])
    else line.push(kv)
  }
  const names = [...lines.keys()].sort()
  return Promise.all(names.map((name) => standingOf(desk, name, inOrder(lines.get(name)))))
}

/**
 * Takes the places of those that hold, in one step: none of them, if one has gone meanwhile; then of those that are left. Whoever came to
 * hold since is not meant: the first request may have been carried out although its answer was lost.
 */
export async function forceRelease(desk: Desk, name: string): Promise<number> {
  let meant: ReadonlySet<number> | undefined
  let taken = 0
  for (;;) {
    const { is } = await desk.client.range(desk.line(name).all)
    const line = inOrder(is.kvs)
    const present = line.slice(0, holdersIn(line))
    meant ??= new Set(present.map(({ token }) => token))
    const holders = present.filter(({ token }) => meant?.has(token))
    if (holders.length === 0) return taken
    const answer = await desk.client.txn(take(holders))
    if (answer.is.succeeded === true) return holders.length
    taken = answer.repeated ? holders.length : 0
  }
}

async function standingOf(desk: Desk, name: string, line: readonly Place[]): Promise<Standing> {
  const held = line.slice(0, holdersIn(line))
  const leases = [...new Set(held.map(({ lease }) => lease))]
  const left = new Map(await Promise.all(leases.map(async (id) => [id, await leftOf(desk, id)] as const)))
  const now = desk.client.time.now()
  return {
    name,
    holders: held.map((place) => holderOf(place, now, left.get(place.lease))),
    waiters: line.slice(held.length).map((place) => {
      const { heldFor, token, expiresIn, ...waiter } = holderOf(place, now)
      return { ...waiter, waitedFor: heldFor }
    }),
    lastToken: Math.max(0, ...held.map(({ token }) => token)),
  }
}

/**
 * Whole seconds is what the store tells, rounded down: who has less than one has some all the same, and must not pass for dead. A key
 * without a lease stays until somebody deletes it.
 */
async function leftOf(desk: Desk, lease: string): Promise<number> {
  if (lease === '0') return Number.POSITIVE_INFINITY
  const { is } = await desk.client.timeToLive(lease)
  const left = Number(is.TTL ?? 0)
  return left < 0 ? 0 : Math.min(left + 1, Number(is.grantedTTL ?? left + 1)) * 1000
}
