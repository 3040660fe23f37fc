/**
 * Who holds, by the order of the line alone. A place holds when its mode goes together with all that stand before it, and nobody
 * overtakes: so whoever holds does so for as long as its key is there, and what is before a holder holds, too.
 */
import { admits, type Mode } from '../../core/mode.js'
import type { Place } from './place.js'
import { placeOf } from './place.js'
import type { KeyValue, WatchEvent } from './wire.js'

/** What stands before a claim, as far as it was read: for an exclusive one, the last and the first. */
export interface Ahead {
  readonly places: readonly Place[]
  /** How many there are. */
  readonly count: number
  /** The head of the line. */
  readonly first: Place | undefined
}

export function inOrder(kvs: readonly KeyValue[] = []): Place[] {
  return kvs.map(placeOf).sort((a, b) => a.token - b.token)
}

export function holds(ahead: readonly Place[], mode: Mode): boolean {
  return admits(
    ahead.map((place) => place.mode),
    mode,
  )
}

/** The holders: the longest beginning of the line in which each goes together with those before it. */
export function holdersIn(line: readonly Place[]): number {
  let n = 0
  while (n < line.length && holds(line.slice(0, n), (line[n] as Place).mode)) n++
  return n
}

/** The limit by which a semaphore of this name is in use, where it is not `mode`'s. */
export function otherLimit(ahead: readonly Place[], mode: Mode): number | undefined {
  if (mode.kind !== 'permits') return undefined
  for (const { mode: theirs } of ahead) {
    if (theirs.kind === 'permits' && theirs.of !== mode.of) return theirs.of
  }
  return undefined
}

/**
 * The one place whose end is waited for: while it stands there, nothing else that happens can help. Undefined for permits
 * behind permits: any of them may make room.
 */
export function inTheWay(ahead: readonly Place[], mode: Mode): Place | undefined {
  if (mode.kind === 'exclusive') return ahead.at(-1)
  return ahead.findLast((place) => place.mode.kind !== mode.kind)
}

/** After these events, is it worth asking? `ahead` loses those that are gone. */
export function worthAsking(ahead: Map<string, Place>, mode: Mode, events: readonly WatchEvent[]): boolean {
  let changed = false
  for (const { type, kv } of events) {
    if (!ahead.has(kv.key)) continue
    changed = true
    if (type === 'DELETE') ahead.delete(kv.key)
  }
  return (
    changed &&
    (mode.kind !== 'permits' ||
      inTheWay([...ahead.values()], mode) !== undefined ||
      holds([...ahead.values()], mode))
  )
}
