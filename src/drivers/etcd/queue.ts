/** The entries ahead of a claim, and whether events change them. `kit/sessions/order.ts` decides which entries hold. */
import type { Mode } from '../../core/mode.js'
import { blockerOf, isGranted } from '../kit/sessions/order.js'
import type { KeyValue, TxnReply, WatchEvent } from './api-types.js'
import { modeIn, type Place, placeOf } from './queue-entry.js'

/** The entries ahead of a claim, as far as they were read: for an exclusive claim, the last and the first. */
export interface Ahead {
  readonly places: readonly Place[]
  /** The number of entries ahead. */
  readonly count: number
  /** The head of the queue. */
  readonly first: Place | undefined
}

export function inOrder(kvs: readonly KeyValue[] = []): Place[] {
  return kvs.map(placeOf).sort((a, b) => a.created - b.created)
}

/** Parses the answer to `enter` or `look`. */
export function aheadIn({ responses = [] }: TxnReply): Ahead {
  const [before, first] = responses
  const head = first?.response_range?.kvs?.[0]
  return {
    places: inOrder(before?.response_range?.kvs),
    count: Number(before?.response_range?.count ?? 0),
    first: head && placeOf(head),
  }
}

/** Does a rewritten entry still have this mode? A hold that is passed on is rewritten without another effect on the queue. */
export const keepsMode = ({ value = '' }: { readonly value?: string }, mode: Mode): boolean =>
  modeIn(value).kind === mode.kind

/** Is it worth reading the queue after these events? Removes deleted entries from `ahead`. */
export function worthAsking(ahead: Map<string, Place>, mode: Mode, events: readonly WatchEvent[]): boolean {
  let changed = false
  for (const { type, kv } of events) {
    const place = ahead.get(kv.key)
    if (place === undefined || (type !== 'DELETE' && keepsMode(kv, place.mode))) continue
    changed = true
    if (type === 'DELETE') ahead.delete(kv.key)
  }
  if (!changed || mode.kind !== 'permits') return changed
  const left = [...ahead.values()]
  return blockerOf(left, mode) !== undefined || isGranted(left, mode)
}
