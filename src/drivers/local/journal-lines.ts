/**
 * The lines of the journal, and the state that they add up to.
 * ```
 *   ["v", 1, boot, pid, floor, start, space]                                           header: the owner; pid 0: no owner any more
 *   ["g", name, attempt, mode, ttl, token, upTo, note, by, client, pid, start, space]  granted
 *   ["d", name, attempt, token]                                                        downgraded to shared
 *   ["t", name, attempt, ttl]                                                          renewed for longer than before
 *   ["r", name, attempt]                                                               ended by its client
 *   ["x", name, attempt]                                                               ended otherwise
 *   ["c", key, version, value, ends, id]                                               a cell; value null: removed; ends null: never
 * ```
 * Long because what writes a line, reads it and checks it must agree.
 */

import { shared } from '../../core/mode.js'
import type { Entry } from '../memory/cell-table.js'
import type { Hold } from '../memory/table.js'
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
}

/** `expires`: milliseconds since `boot`. */
export interface JournaledCell {
  readonly boot: string
  readonly key: string
  readonly entry: Entry
}

export const toLines = {
  header: (here: ProcessIdentity, floor: number): string =>
    line(['v', 1, here.boot, here.pid, floor, here.start, here.space]),
  granted: ({ name, hold, client, identity }: JournaledHold): string =>
    line([
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
  downgraded: (name: string, hold: Hold): string => line(['d', name, hold.attempt, hold.token]),
  longer: (name: string, hold: Hold): string => line(['t', name, hold.attempt, hold.ttl]),
  /** @param expires milliseconds since the machine was started */
  cell: (key: string, { version, value, id }: Entry, expires: number): string =>
    line(['c', key, version, value ?? null, Number.isFinite(expires) ? Math.round(expires) : null, id]),
  ended: (name: string, attempt: string, byClient: boolean): string =>
    line([byClient ? 'r' : 'x', name, attempt]),
}

function line(fields: readonly unknown[]): string {
  return `${JSON.stringify(fields)}\n`
}

/** The state recorded in a whole journal. @throws Error when a whole line of it is malformed */
export function parseJournal(text: string): JournalState {
  let floor = 0
  let boot = ''
  const holds = new Map<string, JournaledHold>()
  const ended: { name: string; attempt: string }[] = []
  const cells = new Map<string, JournaledCell>()
  for (const fields of parsed(text)) {
    const [kind, name, attempt] = fields as [string, string, string]
    const known = holds.get(attempt)
    if (kind === 'v') {
      boot = attempt
      floor = Math.max(floor, Number(fields[4]))
    } else if (kind === 'g') {
      const held = readHold(fields, boot)
      floor = Math.max(floor, held.hold.upTo)
      holds.set(attempt, held)
    } else if (kind === 'c') {
      const cell = readCell(fields, boot)
      floor = Math.max(floor, cell.entry.version)
      cells.set(name, cell)
    } else if (kind === 'r' || kind === 'x') {
      holds.delete(attempt)
      if (kind === 'r') ended.push({ name, attempt })
    } else if (kind === 'd' && known !== undefined) {
      const token = Number(fields[3])
      holds.set(attempt, { ...known, hold: { ...known.hold, mode: shared, token, upTo: token } })
    } else if (kind === 't' && known !== undefined) {
      holds.set(attempt, { ...known, hold: { ...known.hold, ttl: Number(fields[3]) } })
    }
  }
  return { floor, holds: [...holds.values()], ended, cells: [...cells.values()] }
}

/** The last broker that wrote; undefined when it has shut down cleanly, or there was none. @throws as `parseJournal` */
export function parseBroker(text: string): ProcessIdentity | undefined {
  let broker: ProcessIdentity | undefined
  for (const fields of parsed(text)) {
    if (fields[0] !== 'v') continue
    const [, , boot, pid, , start = '', space = ''] = fields as [
      string,
      1,
      string,
      number,
      number,
      string?,
      string?,
    ]
    broker = pid === 0 ? undefined : { boot, pid, start, space }
  }
  return broker
}

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

/**
 * What a line of each kind has, field by field, as far as it is read: `s` text, `n` a number, `m` a mode; capitals: or null. Older
 * versions left out the last ones.
 */
const shapes: Readonly<Record<string, string>> = {
  v: 'snsnn',
  g: 'sssmnnn',
  d: 'sssn',
  t: 'sssn',
  r: 'sss',
  x: 'sss',
  c: 'ssnSNs',
}

function isWhole(fields: readonly unknown[]): boolean {
  const shape = shapes[String(fields[0])] ?? ''
  return [...shape].every((kind, i) => {
    const field = fields[i]
    if (kind === 'm') return isMode(field)
    if (field === null) return kind === 'S' || kind === 'N'
    return kind.toLowerCase() === 'n' ? Number.isFinite(field) : typeof field === 'string'
  })
}

function isMode(field: unknown): boolean {
  if (!Array.isArray(field)) return field === 'x' || field === 's'
  return field.length === 2 && field.every(Number.isSafeInteger)
}

function* parsed(text: string): Iterable<readonly unknown[]> {
  for (const [at, row] of text.split('\n').entries()) {
    if (row === '') continue
    let fields: unknown
    try {
      fields = JSON.parse(row)
    } catch {
      // Torn: its writer never reported its content to a client.
      continue
    }
    if (!Array.isArray(fields)) continue
    // Without it, what is held would be granted again, or a token given twice.
    if (!isWhole(fields)) throw new Error(`line ${at + 1} is ${row.slice(0, 80)}`)
    yield fields
  }
}
