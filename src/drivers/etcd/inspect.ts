/** Holders and waiters for operators. No lock decision depends on these reads. */
import type { LockStatus } from '../../core/driver.js'
import { grantedCount } from '../kit/sessions/order.js'
import type { KeyValue } from './api-types.js'
import { encode, parseLockName, prefixRange } from './keys.js'
import { inOrder } from './queue.js'
import { type QueueEntry, toHolder } from './queue-entry.js'
import type { Runtime } from './runtime.js'
import { take } from './transactions.js'

export async function inspect(runtime: Runtime, name: string): Promise<LockStatus> {
  const { is } = await runtime.client.range(runtime.lockKeys(name).all)
  return readStatus(runtime, name, inOrder(is.kvs))
}

export async function list(runtime: Runtime, beginning: string): Promise<readonly LockStatus[]> {
  const { prefix } = runtime.settings
  const { is } = await runtime.client.range(prefixRange(prefix + encode(beginning)))
  const queues = new Map<string, KeyValue[]>()
  for (const kv of is.kvs ?? []) {
    const name = parseLockName(prefix, kv)
    if (name === undefined || !name.startsWith(beginning)) continue
    const keys = queues.get(name)
    if (keys === undefined) queues.set(name, [kv])
    else keys.push(kv)
  }
  const names = [...queues.keys()].sort()
  const left = cachedTimeLeft(runtime)
  return Promise.all(names.map((name) => readStatus(runtime, name, inOrder(queues.get(name)), left)))
}

/**
 * Removes the holders' entries in one transaction. If one of them has gone meanwhile, none is removed, and the transaction is repeated for the
 * rest. Later holders stay: the first request may have been carried out although its answer was lost.
 */
export async function forceRelease(runtime: Runtime, name: string): Promise<number> {
  let meant: ReadonlySet<number> | undefined
  let taken = 0
  for (;;) {
    const { is } = await runtime.client.range(runtime.lockKeys(name).all)
    const keys = inOrder(is.kvs)
    const present = keys.slice(0, grantedCount(keys))
    meant ??= new Set(present.map(({ created }) => created))
    const holders = present.filter(({ created }) => meant?.has(created))
    if (holders.length === 0) return taken
    const answer = await runtime.client.txn(take(holders))
    if (answer.is.succeeded === true) return holders.length
    taken = answer.repeated ? holders.length : 0
  }
}

/** Requests each lease once: a process keeps all its locks with one. */
function cachedTimeLeft(runtime: Runtime): (lease: string) => Promise<number> {
  const asked = new Map<string, Promise<number>>()
  return (lease) => {
    const known = asked.get(lease) ?? readTimeLeft(runtime, lease)
    asked.set(lease, known)
    return known
  }
}

async function readStatus(
  runtime: Runtime,
  name: string,
  keys: readonly QueueEntry[],
  readLeft = cachedTimeLeft(runtime),
): Promise<LockStatus> {
  const held = keys.slice(0, grantedCount(keys))
  const leases = [...new Set(held.map(({ lease }) => lease))]
  const left = new Map(await Promise.all(leases.map(async (id) => [id, await readLeft(id)] as const)))
  const now = runtime.client.time.now()
  return {
    name,
    holders: held.map((entry) => toHolder(entry, now, left.get(entry.lease))),
    waiters: keys.slice(held.length).map((entry) => {
      const { heldFor, token, expiresIn, ...waiter } = toHolder(entry, now)
      return { ...waiter, waitedFor: heldFor }
    }),
    lastToken: Math.max(0, ...held.map(({ token }) => token)),
  }
}

/**
 * The store reports whole seconds, rounded down. A lease with less than one second left is not over, and must not count as dead. A key
 * without a lease stays until a client deletes it.
 */
async function readTimeLeft(runtime: Runtime, lease: string): Promise<number> {
  if (lease === '0') return Number.POSITIVE_INFINITY
  const { is } = await runtime.client.timeToLive(lease)
  const left = Number(is.TTL ?? 0)
  return left < 0 ? 0 : Math.min(left + 1, Number(is.grantedTTL ?? left + 1)) * 1000
}
