/**
 * The queue of one name: an immutable array and, for a long queue, an index of its attempts, so that a request does not compare its
 * attempt with thousands of others. The index moves to each new version of the queue; an older version that is used again builds a
 * new one.
 */
import type { Place } from './row.js'

/** A shorter queue is searched without an index. */
const indexedFrom = 64

const indexes = new WeakMap<readonly Place[], Map<string, Place>>()

/** The queue entry of `attempt` and its index, 0 = first. */
export function placeIn(
  line: readonly Place[],
  attempt: string,
): { readonly place: Place; readonly index: number } | undefined {
  const place =
    line.length < indexedFrom ? line.find((one) => one.attempt === attempt) : indexOf(line).get(attempt)
  return place && { place, index: line.indexOf(place) }
}

/** Inserts `place` before the first entry with a later ticket. */
export function withPlace(
  line: readonly Place[],
  place: Place,
): { readonly line: readonly Place[]; readonly index: number } {
  const last = line.at(-1)?.ticket ?? 0
  const later = place.ticket > last ? -1 : line.findIndex((other) => other.ticket > place.ticket)
  const index = later < 0 ? line.length : later
  const next = later < 0 ? line.concat(place) : [...line.slice(0, later), place, ...line.slice(later)]
  passIndex(line, next)?.set(place.attempt, place)
  return { line: next, index }
}

export function withoutPlace(
  line: readonly Place[],
  { place, index }: { place: Place; index: number },
): readonly Place[] {
  const next = line.slice(0, index).concat(line.slice(index + 1))
  passIndex(line, next)?.delete(place.attempt)
  return next
}

/** Removes the first `count` entries. */
export function withoutHead(line: readonly Place[], count: number): readonly Place[] {
  const next = line.slice(count)
  const index = passIndex(line, next)
  if (index !== undefined) for (const { attempt } of line.slice(0, count)) index.delete(attempt)
  return next
}

function passIndex(from: readonly Place[], to: readonly Place[]): Map<string, Place> | undefined {
  const index = indexes.get(from)
  if (index === undefined) return undefined
  indexes.delete(from)
  indexes.set(to, index)
  return index
}

function indexOf(line: readonly Place[]): Map<string, Place> {
  let index = indexes.get(line)
  if (index === undefined) {
    index = new Map(line.map((place) => [place.attempt, place]))
    indexes.set(line, index)
  }
  return index
}
