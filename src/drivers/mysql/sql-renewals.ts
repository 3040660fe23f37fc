/**
 * The renewal of many holds, and similar statements: they lock more than one row. They wait for no row: they skip rows that somebody else
 * has locked (`verifyAll` of a single hold locks one row, and waits for it). So they cannot be part of a cycle, and keep nothing locked while a stranger keeps something else locked.
 *
 * Every matching row is changed (`version`), so the count of rows means the same with and without the client's flag `FOUND_ROWS`.
 */
import type { Tables } from './schema.js'
import {
  bytes,
  containsPath,
  type HoldRow,
  jsonPath,
  later,
  noSooner,
  sharedEnd,
  sharedEntry,
} from './sql.js'

/** A hold and how long it is proven to be valid, in ms. */
export interface VerifiedHold {
  readonly held: HoldRow
  readonly left: number
}

interface RenewalBatch {
  readonly names: ReadonlySet<string>
  readonly alone: readonly HoldRow[]
  readonly sharing: ReadonlyMap<string, readonly HoldRow[]>
}

function groupHolds(holds: readonly HoldRow[]): RenewalBatch {
  const sharing = new Map<string, HoldRow[]>()
  for (const held of holds)
    if (held.claim.mode.kind !== 'exclusive') {
      const { name } = held.claim
      sharing.set(name, [...(sharing.get(name) ?? []), held])
    }
  const alone = holds.filter((held) => held.claim.mode.kind === 'exclusive')
  return { names: new Set(holds.map((held) => held.claim.name)), alone, sharing }
}

/** Matches the rows in which every one of these holds is held. */
function ownerCondition({ alone, sharing }: RenewalBatch): string {
  const owned = alone.map((held) => bytes(held.claim.attempt))
  return [
    ...(owned.length === 0 ? [] : [`(l.kind = 'x' AND l.owner IN (${owned.join(', ')}))`]),
    ...(sharing.size === 0 ? [] : [`(l.kind IN ('s', 'p') AND ${each(sharing, containsAll, '0')})`]),
  ].join(' OR ')
}

const lockedRows = (tables: Tables, names: ReadonlySet<string>, passing: 'SKIP LOCKED' | '') =>
  `(SELECT name FROM ${tables.locks} WHERE name IN (${[...names].map(bytes).join(', ')}) LIMIT ${names.size} FOR UPDATE ${passing}) d
  STRAIGHT_JOIN ${tables.locks} l ON l.name = d.name`

/** A late copy shortens nothing. @param holds with one ttl @returns `rows`: this many are changed if, and only if, all are held and none was skipped */
export function renewAll(
  tables: Tables,
  holds: readonly HoldRow[],
): { readonly text: string; readonly rows: number } {
  const [{ claim }] = holds as readonly [HoldRow, ...HoldRow[]]
  const all = groupHolds(holds)
  const ttl = String(Math.round(claim.ttl * 1000))
  const ends = `${later} + ${ttl}`
  const { names, sharing } = all
  const sharers = sharing.size === 0 ? '' : `, l.sharers = ${each(sharing, replaced, 'l.sharers')}`
  const text = `UPDATE ${lockedRows(tables, names, 'SKIP LOCKED')}
SET l.version = l.version + 1, l.ttl = GREATEST(l.ttl, ${ttl})${sharers}, l.until = ${noSooner('l.until', ends, 'l.')}
WHERE ${ownerCondition(all)}`
  return { text, rows: names.size }
}

/**
 * Writes the proven validity to rows where it may be missing or end sooner. It shortens nothing, whatever else is in flight. A single hold
 * waits for its row and gets a definite answer.
 * @returns `rows`: as `renewAll`
 */
export function verifyAll(
  tables: Tables,
  kept: readonly VerifiedHold[],
): { readonly text: string; readonly rows: number } {
  const all = groupHolds(kept.map(({ held }) => held))
  const { names, sharing } = all
  const left = new Map(kept.map(({ held, left }) => [held.claim.attempt, micros(left)]))
  const timeLeft = ({ claim }: HoldRow) => left.get(claim.attempt) ?? 0
  const longest = new Map<string, number>()
  for (const { held, left } of kept) {
    const { name } = held.claim
    longest.set(name, Math.max(longest.get(name) ?? 0, micros(left)))
  }
  const cases = [...longest].map(([name, left]) => `WHEN ${bytes(name)} THEN ${left}`)
  const lasts = `CASE l.name ${cases.join(' ')} ELSE 0 END`
  const lengthened = (holds: readonly HoldRow[]) =>
    `JSON_REPLACE(l.sharers, ${holds.map((one) => `${jsonPath(one.claim.attempt)}, ${sharedEntry(one, laterExpiry(one, timeLeft(one)))}`).join(', ')})`
  const sharers = sharing.size === 0 ? '' : `, l.sharers = ${each(sharing, lengthened, 'l.sharers')}`
  const text = `UPDATE ${lockedRows(tables, names, kept.length > 1 ? 'SKIP LOCKED' : '')}
SET l.version = l.version + 1, l.ttl = GREATEST(l.ttl, ${lasts})${sharers}, l.until = GREATEST(l.until, ${later} + ${lasts})
WHERE ${ownerCondition(all)}`
  return { text, rows: names.size }
}

const micros = (ms: number) => Math.round(ms * 1000)

/** The end in its entry, or the end `left` µs from now, whichever is later. */
function laterExpiry({ claim }: HoldRow, left: number): string {
  return `GREATEST(${sharedEnd(claim, 'l.')}, ${later} + ${left})`
}

/** An expression that depends on the name of the row. */
function each(
  sharing: ReadonlyMap<string, readonly HoldRow[]>,
  what: (held: readonly HoldRow[]) => string,
  otherwise: string,
): string {
  const cases = [...sharing].map(([name, held]) => `WHEN ${bytes(name)} THEN ${what(held)}`)
  return `CASE l.name ${cases.join(' ')} ELSE ${otherwise} END`
}

const containsAll = (held: readonly HoldRow[]) =>
  containsPath(
    'l.sharers',
    'all',
    held.map(({ claim }) => jsonPath(claim.attempt)),
  )

const replaced = (held: readonly HoldRow[]) =>
  `JSON_REPLACE(l.sharers, ${held.map((one) => `${jsonPath(one.claim.attempt)}, ${sharedEntry(one, noSooner(sharedEnd(one.claim, 'l.'), `${later} + ${micros(one.claim.ttl)}`, 'l.'))}`).join(', ')})`
