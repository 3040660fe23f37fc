/** Holders and waiters for operators. No lock decision depends on these reads. */
import type { LockStatus } from '../../core/driver.js'
import { grantedCount } from '../kit/sessions/order.js'
import type { KeyValue } from './api-types.js'
import { encode, nameOf, rangeOf } from './keys.js'
import { inOrder } from './queue.js'
import { holderOf, type Place } from './queue-entry.js'
import type { Desk } from './runtime.js'
import { take } from './transactions.js'

export async function inspect(desk: Desk, name: string): Promise<LockStatus> {
  const { is } = await desk.client.range(desk.line(name).all)
  return standingOf(desk, name, inOrder(is.kvs))
}

export async function list(desk: Desk, beginning: string): Promise<readonly LockStatus[]> {
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
  const left = leftOnce(desk)
  return Promise.all(names.map((name) => standingOf(desk, name, inOrder(lines.get(name)), left)))
}

/**
 * Removes the holders' entries in one transaction. If one of them has gone meanwhile, none is removed, and the transaction is repeated for the
 * rest. Later holders stay: the first request may have been carried out although its answer was lost.
 */
export async function forceRelease(desk: Desk, name: string): Promise<number> {
  let meant: ReadonlySet<number> | undefined
  let taken = 0
  for (;;) {
    const { is } = await desk.client.range(desk.line(name).all)
    const line = inOrder(is.kvs)
    const present = line.slice(0, grantedCount(line))
    meant ??= new Set(present.map(({ created }) => created))
    const holders = present.filter(({ created }) => meant?.has(created))
    if (holders.length === 0) return taken
    const answer = await desk.client.txn(take(holders))
    if (answer.is.succeeded === true) return holders.length
    taken = answer.repeated ? holders.length : 0
  }
}

/** Requests each lease once: a process keeps all its locks with one. */
function leftOnce(desk: Desk): (lease: string) => Promise<number> {
  const asked = new Map<string, Promise<number>>()
  return (lease) => {
    const known = asked.get(lease) ?? leftOf(desk, lease)
    asked.set(lease, known)
    return known
  }
}

async function standingOf(
  desk: Desk,
  name: string,
  line: readonly Place[],
  leftOn = leftOnce(desk),
): Promise<LockStatus> {
  const held = line.slice(0, grantedCount(line))
  const leases = [...new Set(held.map(({ lease }) => lease))]
  const left = new Map(await Promise.all(leases.map(async (id) => [id, await leftOn(id)] as const)))
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
 * The store reports whole seconds, rounded down. A lease with less than one second left is not over, and must not count as dead. A key
 * without a lease stays until a client deletes it.
 */
async function leftOf(desk: Desk, lease: string): Promise<number> {
  if (lease === '0') return Number.POSITIVE_INFINITY
  const { is } = await desk.client.timeToLive(lease)
  const left = Number(is.TTL ?? 0)
  return left < 0 ? 0 : Math.min(left + 1, Number(is.grantedTTL ?? left + 1)) * 1000
}
