/** Holders and waiters for operators. No lock decision depends on these reads. */
import type { Holder, LockStatus } from '../../core/driver.js'
import { exclusive } from '../../core/mode.js'
import { grantedCount, isGranted } from '../kit/sessions/order.js'
import { parseLockName } from './keys.js'
import { type QueueEntry, type QueueView, toHolder, toQueueView } from './queue-entry.js'
import type { Runtime } from './runtime.js'
import { readQueue, removeUnchanged } from './transactions.js'

export async function inspect(runtime: Runtime, name: string): Promise<LockStatus> {
  const view = await readView(runtime, name)
  const now = runtime.client.time.now()
  const held = findHolders(view)
  const attempts = new Set(held.map(({ attempt }) => attempt))
  const holders: Holder[] = held.map((entry) => toHolder(entry, now))
  const waiters = view.entries
    .filter(({ attempt }) => !attempts.has(attempt))
    .map((entry) => {
      const { heldFor, token, expiresIn, ...waiter } = toHolder(entry, now)
      return { ...waiter, waitedFor: heldFor }
    })
  return { name, holders, waiters, lastToken: Math.max(0, ...held.map(({ token }) => token)) }
}

export async function list(runtime: Runtime, beginning: string): Promise<readonly LockStatus[]> {
  const { prefix } = runtime.settings
  // The encoding may change the beginning of a name, so all keys are searched.
  const names = new Set<string>()
  for (const key of await runtime.client.keys(prefix)) {
    const name = parseLockName(prefix, key)
    if (name?.startsWith(beginning)) names.add(name)
  }
  const all = await Promise.all([...names].sort().map((name) => inspect(runtime, name)))
  return all.filter(({ holders, waiters }) => holders.length + waiters.length > 0)
}

/**
 * Removes the lock and the holders' entries in one transaction. If one of them has changed meanwhile, none is removed, and the transaction is
 * repeated for the rest. Later holders stay: the first request may have been carried out although its answer was lost.
 */
export async function forceRelease(runtime: Runtime, name: string): Promise<number> {
  let meant: ReadonlySet<string> | undefined
  let taken = 0
  for (;;) {
    const view = await readView(runtime, name)
    const present = findHolders(view)
    meant ??= new Set(present.map(({ attempt }) => attempt))
    const held = present.filter(({ attempt }) => meant?.has(attempt))
    if (held.length === 0) return taken
    const attempts = new Set(held.map(({ attempt }) => attempt))
    const entries = view.entries.filter(({ attempt }) => attempts.has(attempt))
    const keys = new Map([...entries, ...held].map(({ key, index }) => [key, { key, index }]))
    const { committed, repeated } = await runtime.client.txn(removeUnchanged([...keys.values()]))
    if (committed) return held.length
    taken = repeated ? held.length : 0
  }
}

async function readView(runtime: Runtime, name: string): Promise<QueueView> {
  const keys = runtime.lockKeys(name)
  const { found } = await runtime.client.read(readQueue(keys))
  return toQueueView(keys, found)
}

/**
 * The owner of the lock, or else the entries at the head of the queue that hold without it. An entry at the head without a mark is about to
 * hold: its process does not know yet, and may never. A claim that took the lock with an entry behind others is about to free it again: the
 * entries ahead of it hold.
 */
function findHolders({ entries, lock }: QueueView): readonly QueueEntry[] {
  if (lock !== undefined && lock.session !== '') {
    const own = entries.findIndex(({ attempt }) => attempt === lock.attempt)
    if (own < 0 || isGranted(entries.slice(0, own), exclusive)) return [lock]
  }
  const [first] = entries
  if (first === undefined || first.mode.kind === 'exclusive') return []
  return entries.slice(0, grantedCount(entries)).filter(({ held }) => held)
}
