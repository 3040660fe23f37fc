/** The entries ahead of a claim, and whether events change them. `kit/sessions/order.ts` decides which entries hold. */
import type { Mode } from '../../core/mode.js'
import { findBlocker, isGranted } from '../kit/sessions/order.js'
import type { KeyValue, TxnReply, WatchEvent } from './api-types.js'
import { parseMode, type QueueEntry, toQueueEntry } from './queue-entry.js'

/** The entries ahead of a claim, as far as they were read: for an exclusive claim, the last and the first. */
export interface Predecessors {
  readonly entries: readonly QueueEntry[]
  /** The number of entries ahead. */
  readonly count: number
  /** The head of the queue. */
  readonly first: QueueEntry | undefined
}

export function inOrder(kvs: readonly KeyValue[] = []): QueueEntry[] {
  return kvs.map(toQueueEntry).sort((a, b) => a.created - b.created)
}

/** Parses the answer to `enter` or `look`. */
export function parsePredecessors({ responses = [] }: TxnReply): Predecessors {
  const [before, first] = responses
  const head = first?.response_range?.kvs?.[0]
  return {
    entries: inOrder(before?.response_range?.kvs),
    count: Number(before?.response_range?.count ?? 0),
    first: head && toQueueEntry(head),
  }
}

/** Does a rewritten entry still have this mode? A hold that is passed on is rewritten without another effect on the queue. */
export const keepsMode = ({ value = '' }: { readonly value?: string }, mode: Mode): boolean =>
  parseMode(value).kind === mode.kind

/** Is it worth reading the queue after these events? Removes deleted entries from `ahead`. */
export function mayUnblock(
  ahead: Map<string, QueueEntry>,
  mode: Mode,
  events: readonly WatchEvent[],
): boolean {
  let changed = false
  for (const { type, kv } of events) {
    const entry = ahead.get(kv.key)
    if (entry === undefined || (type !== 'DELETE' && keepsMode(kv, entry.mode))) continue
    changed = true
    if (type === 'DELETE') ahead.delete(kv.key)
  }
  if (!changed || mode.kind !== 'permits') return changed
  const left = [...ahead.values()]
  return findBlocker(left, mode) !== undefined || isGranted(left, mode)
}
