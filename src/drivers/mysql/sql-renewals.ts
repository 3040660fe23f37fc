/**
 * The renewal of many holds, the one statement that locks more than one row. It never waits for any: rows that are locked by somebody
 * else are passed over. So it cannot be part of a circle, and keeps nothing locked while a stranger keeps something else.
 *
 * Every row it matches is changed (`version`), so the count of rows means the same with and without the client's flag `FOUND_ROWS`.
 */
import type { Tables } from './schema.js'
import { bytes, entryOf, type Held, now, pathOf } from './sql.js'

/** @param holds with one ttl. @returns `rows`: as many are changed if, and only if, all are held and none was passed over */
export function renewAll(
  tables: Tables,
  holds: readonly Held[],
): { readonly text: string; readonly rows: number } {
  const [{ claim }] = holds as readonly [Held, ...Held[]]
  const names = new Set(holds.map((held) => held.claim.name))
  const alone = holds.filter((held) => held.claim.mode.kind === 'exclusive')
  const sharing = new Map<string, Held[]>()
  for (const held of holds)
    if (held.claim.mode.kind !== 'exclusive') {
      const { name } = held.claim
      sharing.set(name, [...(sharing.get(name) ?? []), held])
    }
  const ttl = String(Math.round(claim.ttl * 1000))
  const ends = `${now} + ${ttl}`
  const owned = alone.map((held) => bytes(held.claim.attempt))
  const ours = [
    ...(owned.length === 0 ? [] : [`(l.kind = 'x' AND l.owner IN (${owned.join(', ')}))`]),
    ...(sharing.size === 0 ? [] : [`(l.kind IN ('s', 'p') AND ${each(sharing, containsAll, '0')})`]),
  ]
  const sharers = sharing.size === 0 ? '' : `, l.sharers = ${each(sharing, replaced, 'l.sharers')}`
  const text = `UPDATE (SELECT name FROM ${tables.locks} WHERE name IN (${[...names].map(bytes).join(', ')}) LIMIT ${names.size} FOR UPDATE SKIP LOCKED) d
  STRAIGHT_JOIN ${tables.locks} l ON l.name = d.name
SET l.version = l.version + 1, l.ttl = IF(l.kind = 'x', ${ttl}, GREATEST(l.ttl, ${ttl})),
  l.until = IF(l.kind = 'x', ${ends}, GREATEST(l.until, ${ends}))${sharers}
WHERE ${ours.join(' OR ')}`
  return { text, rows: names.size }
}

/** What holds of the row of each name. */
function each(
  sharing: ReadonlyMap<string, readonly Held[]>,
  what: (held: readonly Held[]) => string,
  otherwise: string,
): string {
  const cases = [...sharing].map(([name, held]) => `WHEN ${bytes(name)} THEN ${what(held)}`)
  return `CASE l.name ${cases.join(' ')} ELSE ${otherwise} END`
}

const containsAll = (held: readonly Held[]) =>
  `JSON_CONTAINS_PATH(COALESCE(l.sharers, '{}'), 'all', ${held.map(({ claim }) => pathOf(claim.attempt)).join(', ')})`

const replaced = (held: readonly Held[]) =>
  `JSON_REPLACE(l.sharers, ${held.map((one) => `${pathOf(one.claim.attempt)}, ${entryOf(one)}`).join(', ')})`
