/**
 * The queue of one name: an immutable array and, for a long queue, an index of its attempts, so that a request does not compare its
 * attempt with thousands of others. The index moves to each new version of the queue; an older version that is used again builds a
 * new one.
 */
import type { QueueEntry } from './row.js'

/** A shorter queue is searched without an index. */
const indexThreshold = 64

const indexes = new WeakMap<readonly QueueEntry[], Map<string, QueueEntry>>()

/** The queue entry of `attempt` and its index, 0 = first. */
export function findEntry(
  queue: readonly QueueEntry[],
  attempt: string,
): { readonly entry: QueueEntry; readonly index: number } | undefined {
  const entry =
    queue.length < indexThreshold
      ? queue.find((one) => one.attempt === attempt)
      : buildIndex(queue).get(attempt)
  return entry && { entry, index: queue.indexOf(entry) }
}

/** Inserts `place` before the first entry with a later ticket. */
export function withEntry(
  queue: readonly QueueEntry[],
  entry: QueueEntry,
): { readonly queue: readonly QueueEntry[]; readonly index: number } {
  const last = queue.at(-1)?.ticket ?? 0
  const later = entry.ticket > last ? -1 : queue.findIndex((other) => other.ticket > entry.ticket)
  const index = later < 0 ? queue.length : later
  const next = later < 0 ? queue.concat(entry) : [...queue.slice(0, later), entry, ...queue.slice(later)]
  moveIndex(queue, next)?.set(entry.attempt, entry)
  return { queue: next, index }
}

export function withoutEntry(
  queue: readonly QueueEntry[],
  { entry, index }: { entry: QueueEntry; index: number },
): readonly QueueEntry[] {
  const next = queue.slice(0, index).concat(queue.slice(index + 1))
  moveIndex(queue, next)?.delete(entry.attempt)
  return next
}

/** Removes the first `count` entries. */
export function withoutHead(queue: readonly QueueEntry[], count: number): readonly QueueEntry[] {
  const next = queue.slice(count)
  const index = moveIndex(queue, next)
  if (index !== undefined) for (const { attempt } of queue.slice(0, count)) index.delete(attempt)
  return next
}

function moveIndex(
  from: readonly QueueEntry[],
  to: readonly QueueEntry[],
): Map<string, QueueEntry> | undefined {
  const index = indexes.get(from)
  if (index === undefined) return undefined
  indexes.delete(from)
  indexes.set(to, index)
  return index
}

function buildIndex(queue: readonly QueueEntry[]): Map<string, QueueEntry> {
  let index = indexes.get(queue)
  if (index === undefined) {
    index = new Map(queue.map((entry) => [entry.attempt, entry]))
    indexes.set(queue, index)
  }
  return index
}
