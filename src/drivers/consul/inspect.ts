/** Holders and waiters for operators. No lock decision depends on these reads. */
import type { Holder, LockStatus } from '../../core/driver.js'
import { exclusive } from '../../core/mode.js'
import { grantedCount, isGranted } from '../kit/sessions/order.js'
import { nameOf } from './keys.js'
import { holderOf, type Place, type View, viewOf } from './queue-entry.js'
import type { Desk } from './runtime.js'
import { look, seize } from './transactions.js'

export async function inspect(desk: Desk, name: string): Promise<LockStatus> {
  const view = await viewed(desk, name)
  const now = desk.client.time.now()
  const held = holdersOf(view)
  const attempts = new Set(held.map(({ attempt }) => attempt))
  const holders: Holder[] = held.map((place) => holderOf(place, now))
  const waiters = view.line
    .filter(({ attempt }) => !attempts.has(attempt))
    .map((place) => {
      const { heldFor, token, expiresIn, ...waiter } = holderOf(place, now)
      return { ...waiter, waitedFor: heldFor }
    })
  return { name, holders, waiters, lastToken: Math.max(0, ...held.map(({ token }) => token)) }
}

export async function list(desk: Desk, beginning: string): Promise<readonly LockStatus[]> {
  const { prefix } = desk.settings
  // The encoding may change the beginning of a name, so all keys are searched.
  const names = new Set<string>()
  for (const key of await desk.client.keys(prefix)) {
    const name = nameOf(prefix, key)
    if (name?.startsWith(beginning)) names.add(name)
  }
  const all = await Promise.all([...names].sort().map((name) => inspect(desk, name)))
  return all.filter(({ holders, waiters }) => holders.length + waiters.length > 0)
}

/**
 * Removes the lock and the holders' entries in one transaction. If one of them has changed meanwhile, none is removed, and the transaction is
 * repeated for the rest. Later holders stay: the first request may have been carried out although its answer was lost.
 */
export async function forceRelease(desk: Desk, name: string): Promise<number> {
  let meant: ReadonlySet<string> | undefined
  let taken = 0
  for (;;) {
    const view = await viewed(desk, name)
    const present = holdersOf(view)
    meant ??= new Set(present.map(({ attempt }) => attempt))
    const held = present.filter(({ attempt }) => meant?.has(attempt))
    if (held.length === 0) return taken
    const attempts = new Set(held.map(({ attempt }) => attempt))
    const places = view.line.filter(({ attempt }) => attempts.has(attempt))
    const keys = new Map([...places, ...held].map(({ key, index }) => [key, { key, index }]))
    const { done, repeated } = await desk.client.txn(seize([...keys.values()]))
    if (done) return held.length
    taken = repeated ? held.length : 0
  }
}

async function viewed(desk: Desk, name: string): Promise<View> {
  const line = desk.line(name)
  const { found } = await desk.client.read(look(line))
  return viewOf(line, found)
}

/**
 * The owner of the lock, or else the entries at the head of the queue that hold without it. An entry at the head without a mark is about to
 * hold: its process does not know yet, and may never. A claim that took the lock with an entry behind others is about to free it again: the
 * entries ahead of it hold.
 */
function holdersOf({ line, lock }: View): readonly Place[] {
  if (lock !== undefined && lock.session !== '') {
    const own = line.findIndex(({ attempt }) => attempt === lock.attempt)
    if (own < 0 || isGranted(line.slice(0, own), exclusive)) return [lock]
  }
  const [first] = line
  if (first === undefined || first.mode.kind === 'exclusive') return []
  return line.slice(0, grantedCount(line)).filter(({ held }) => held)
}
