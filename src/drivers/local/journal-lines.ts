/**
 * The lines of the journal, and the state that they add up to. How a line is written and verified is in `journal-text.ts`.
 *
 * Long because what writes a line and what reads it must agree.
 * ```
 *   ["v", 2, boot, pid, floor, start, space]                                           header: the owner; pid 0: no owner any more
 *   ["g", name, attempt, mode, ttl, token, upTo, note, by, client, pid, start, space]  granted
 *   ["d", name, attempt, token]                                                        downgraded to shared
 *   ["t", name, attempt, ttl]                                                          renewed for longer than before
 *   ["r", name, attempt]                                                               ended by its client
 *   ["x", name, attempt]                                                               ended otherwise
 *   ["c", key, version, value, ends, id]                                               a cell; value null: removed; ends null: never
 *   ["l", ttl]                                                                         the longest ttl of any hold so far
 *   ["q", until, ttl, why]                                                             what is held is not known for certain before
 * ```
 * Times are milliseconds since the machine was started. Versions before the checksum skip the last two kinds.
 */

import { shared } from '../../core/mode.js'
import type { Entry } from '../memory/cell-table.js'
import type { Hold } from '../memory/table.js'
import { readLines, summed, toLine } from './journal-text.js'
import type { ProcessIdentity } from './processes.js'
import { decodeMode, encodeMode, type WireMode } from './protocol.js'

/** A hold and its owner. */
export interface JournaledHold {
  readonly name: string
  readonly hold: Omit<Hold, 'since' | 'expires'>
  readonly client: string
  readonly identity: ProcessIdentity
}

export interface JournalState {
  /** An upper bound of all tokens granted so far. */
  readonly floor: number
  readonly holds: readonly JournaledHold[]
  /** Attempts ended by their clients, oldest first. */
  readonly ended: readonly { readonly name: string; readonly attempt: string }[]
  /** The cells, with their ends by the machine's own clock. */
  readonly cells: readonly JournaledCell[]
  /** The boot of the machine in which it was written; '' when that is unknown. */
  readonly boot: string
  /** The longest ttl of any hold, ended ones included, in ms. */
  readonly longest: number
  /** Set when lines were lost: which is the first. */
  readonly damage: string | undefined
  readonly quarantine: Quarantine | undefined
}

/** Holds may be missing from what is known. */
export interface Quarantine {
  /** Milliseconds since the machine was started: the last of those holds has ended by then. */
  readonly until: number
  /** The longest ttl that those holds can have, in ms. */
  readonly ttl: number
  readonly why: string
}

/** `expires`: milliseconds since `boot`. */
export interface JournaledCell {
  readonly boot: string
  readonly key: string
  readonly entry: Entry
}

export const toLines = {
  header: (here: ProcessIdentity, floor: number): string =>
    toLine(['v', summed, here.boot, here.pid, floor, here.start, here.space]),
  granted: ({ name, hold, client, identity }: JournaledHold): string =>
    toLine([
      'g',
      name,
      hold.attempt,
      encodeMode(hold.mode),
      hold.ttl,
      hold.token,
      hold.upTo,
      hold.note ?? '',
      hold.client ?? '',
      client,
      identity.pid,
      identity.start,
      identity.space,
    ]),
  downgraded: (name: string, hold: Hold): string => toLine(['d', name, hold.attempt, hold.token]),
  longer: (name: string, hold: Hold): string => toLine(['t', name, hold.attempt, hold.ttl]),
  /** @param expires milliseconds since the machine was started */
  cell: (key: string, { version, value, id }: Entry, expires: number): string =>
    toLine(['c', key, version, value ?? null, Number.isFinite(expires) ? Math.round(expires) : null, id]),
  ended: (name: string, attempt: string, byClient: boolean): string =>
    toLine([byClient ? 'r' : 'x', name, attempt]),
  /** An empty line follows: whatever happens to one newline, the next line, which may be the only other one with this ttl, is not lost, too. */
  longest: (ttl: number): string => `${toLine(['l', ttl])}\n`,
  quarantine: ({ until, ttl, why }: Quarantine): string => `${toLine(['q', until, ttl, why])}\n`,
}

/** What the lines so far add up to. */
type Sum = { -readonly [K in 'boot' | 'floor' | 'longest' | 'quarantine']: JournalState[K] } & {
  readonly holds: Map<string, JournaledHold>
  readonly ended: { name: string; attempt: string }[]
  readonly cells: Map<string, JournaledCell>
}

/** The state recorded in a journal, as far as its lines verify. */
export function parseJournal(text: string): JournalState {
  const { lines, damage } = readLines(text)
  const sum: Sum = {
    boot: '',
    floor: 0,
    longest: 0,
    quarantine: undefined,
    holds: new Map(),
    ended: [],
    cells: new Map(),
  }
  for (const fields of lines) add(sum, fields)
  return { ...sum, damage, holds: [...sum.holds.values()], cells: [...sum.cells.values()] }
}

function add(sum: Sum, fields: readonly unknown[]): void {
  const [kind, name, attempt] = fields as [string, string, string]
  const { holds, ended, cells } = sum
  if (kind === 'v') {
    sum.boot = attempt
    sum.floor = Math.max(sum.floor, Number(fields[4]))
  } else if (kind === 'g') {
    const held = readHold(fields, sum.boot)
    sum.floor = Math.max(sum.floor, held.hold.upTo)
    sum.longest = Math.max(sum.longest, held.hold.ttl)
    holds.set(attempt, held)
  } else if (kind === 'c') {
    const cell = readCell(fields, sum.boot)
    sum.floor = Math.max(sum.floor, cell.entry.version)
    cells.set(name, cell)
  } else if (kind === 'r' || kind === 'x') {
    holds.delete(attempt)
    if (kind === 'r') ended.push({ name, attempt })
  } else if (kind === 'l') sum.longest = Math.max(sum.longest, Number(fields[1]))
  else if (kind === 'q')
    sum.quarantine = { until: Number(fields[1]), ttl: Number(fields[2]), why: String(fields[3]) }
  else if (kind === 'd' || kind === 't') change(sum, fields)
}

function change(sum: Sum, [kind, , attempt, value]: readonly unknown[]): void {
  const number = Number(value)
  if (kind === 't') sum.longest = Math.max(sum.longest, number)
  const known = sum.holds.get(String(attempt))
  if (known === undefined) return
  const to = kind === 't' ? { ttl: number } : { mode: shared, token: number, upTo: number }
  sum.holds.set(known.hold.attempt, { ...known, hold: { ...known.hold, ...to } })
}

/** Of a journal that does not tell its broker: it may live. */
const unknownBroker: ProcessIdentity = { boot: '', pid: 0, start: '', space: '' }

/** The last broker that wrote; undefined when it has shut down cleanly, or there was none. Its pid is 0 when damage hides it. */
export function parseBroker(text: string): ProcessIdentity | undefined {
  const { lines } = readLines(text)
  let broker = text === '' || lines[0]?.[0] === 'v' ? undefined : unknownBroker
  for (const fields of lines) if (fields[0] === 'v') broker = readBroker(fields)
  return broker
}

/** The broker that began this journal; undefined as long as there is none. */
export function parseWriter(text: string): ProcessIdentity | undefined {
  const first = readLines(text).lines[0]
  if (text === '') return undefined
  return first?.[0] === 'v' ? readBroker(first) : unknownBroker
}

function readBroker(fields: readonly unknown[]): ProcessIdentity | undefined {
  const [, , boot, pid, , start = '', space = ''] = fields as HeaderLine
  return pid === 0 ? undefined : { boot, pid, start, space }
}

/** Older versions left out the last two. */
type HeaderLine = readonly [
  kind: 'v',
  version: number,
  boot: string,
  pid: number,
  floor: number,
  start?: string,
  space?: string,
]

type GrantedLine = readonly [
  kind: 'g',
  name: string,
  attempt: string,
  mode: WireMode,
  ttl: number,
  token: number,
  upTo: number,
  note: string,
  by: string,
  client: string,
  pid: number,
  start: string,
  space: string,
]

function readHold(fields: readonly unknown[], boot: string): JournaledHold {
  const [, name, attempt, mode, ttl, token, upTo, note, by, client, pid, start, space] = fields as GrantedLine
  return {
    name,
    hold: {
      attempt,
      mode: decodeMode(mode),
      ttl,
      token,
      upTo,
      note: note || undefined,
      client: by || undefined,
    },
    client,
    identity: { pid, start, space, boot },
  }
}

function readCell(fields: readonly unknown[], boot: string): JournaledCell {
  const [, key, version, value, ends, id] = fields as [
    string,
    string,
    number,
    string | null,
    number | null,
    string,
  ]
  const expires = ends ?? Number.POSITIVE_INFINITY
  return { boot, key, entry: { version, value: value ?? undefined, expires, id } }
}
