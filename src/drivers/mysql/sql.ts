/**
 * Every statement of the strategies `row` and `session`. All of them share four properties:
 * - **One statement, one row.** Each is its own transaction and locks the row of one lock or one waiter and nothing else, at any isolation
 *   level; it reads everything else without locks. (`refreshAll`, `sql-renewals.ts` and `sql-acquire-many.ts` have those for many rows; they wait for nobody.)
 *   So no two of them can wait for each other in a cycle, and none stays open while a process thinks.
 * - **The row decides.** The `WHERE` of one `UPDATE` on the lock's row decides whether a hold begins, goes on or ends. It reports this by
 *   `LAST_INSERT_ID(…)`, which the server returns only for a row that matched; row counts depend on `FOUND_ROWS` and are never read.
 * - **The server's clock.** Microseconds since 1970 in UTC. A statement judges by the time at which it began, `now`, and promises from the time at which
 *   it writes, `later`. Where an application has fixed the time (`SET timestamp`), `now` is the earlier of fixed and real time, `later` the later.
 * - **Never too late.** A statement that takes a lock names the last moment, by that clock, at which anybody still wants it.
 * Assignments are ordered so that it makes no difference whether the right sides see old or new values.
 * Long because the statements are read, and judged, together.
 *
 * Every result column has a name of its own. Otherwise the server calls it by its expression, which may contain the name of the lock or a
 * ticket; mysql2 compiles a parser for each set of columns that it has not seen, and keeps it.
 */
import type { Claim } from '../../core/driver.js'
import type { Mode } from '../../core/mode.js'
import { tokenReserve } from '../../core/token.js'
import type { Tables } from './schema.js'

/** The same however often a statement evaluates it; `SET timestamp` fixes it. */
export const started: string = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
/** SYSDATE is the only real time where an application has fixed the time, and both are local times. */
const local = 'TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))'
/**
 * How long the statement has been running when its row is examined; it may have waited for the row. No statement runs for half an hour: otherwise
 * the time is fixed, or the session's time zone has jumped, as daylight saving time began or ended, and what counts is the difference in UTC. While a
 * zone repeats an hour, that may be an hour off. It is the present hour that must not be a repeated one: the start is known in UTC.
 */
const delay = `IF(${local} BETWEEN 0 AND 1800000000, ${local}, CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED) - ${started})`
/** To judge by: what has ended by this time has ended. */
export const now: string = `(${started} + LEAST(0, ${delay}))`
/** To promise from. A statement that evaluates it again gets the same or a later time. */
export const later: string = `(${started} + GREATEST(0, ${delay}))`
/** The present moment. */
export const present: string = `(${started} + ${delay})`

/**
 * The name of the GET_LOCK that stands for the lock of a row: lower case and 62 characters, which every version accepts. These names are
 * the server's, not the database's, so the database is part of the name. Literals are in the character set of the connection, which may have two bytes
 * a character (`collation_connection`): the name has the same bytes nevertheless.
 */
const userLock = (tables: Tables, hex: string, kind: 'hf' | 'hb' = 'hf') => {
  const full = utf8(`CONCAT(DATABASE(), '.${tables.locks.replaceAll('`', '')}.', ${hex})`)
  return utf8(`CONCAT('${kind}', LEFT(SHA2(${full}, 256), 60))`)
}
const utf8 = (expression: string) => `CONVERT(${expression} USING utf8mb4)`
const hexOf = (name: string) => `'${Buffer.from(name).toString('hex').toUpperCase()}'`
export const userLockName = (tables: Tables, name: string): string => userLock(tables, hexOf(name))

/** Every SELECT has a limit of its own: only then that of the connection (`sql_select_limit`) does not cut the answer. */
const unlimited = 'LIMIT 18446744073709551615'

/** Any text as a literal: hexadecimal, so nothing in the text can end the literal, and none is NULL, whatever `sql_mode` and character set are. */
export const bytes = (value: string): string => `x'${Buffer.from(value).toString('hex')}'`

/**
 * Which server this is, and in which life: every start draws the fourth part of its UUIDs anew. So does putting the clock back.
 */
export const expiryExpression: string = `SELECT CONCAT_WS(' ', HEX(@@hostname), @@port, SUBSTRING(UUID(), 20)) AS incarnation, @@lower_case_table_names AS lower_case LIMIT 1`

const chars = (value: string) => utf8(bytes(value))
const whole = (value: number) => String(Math.round(value))
const micros = (ms: number) => whole(ms * 1000)
/** Literals of JSON are in utf8mb4, whatever the character set of the connection is: the server stores what they are in that one, or matches nothing. */
const json = (value: string) => `_utf8mb4'${value}'`
/** @param sharers the column */
export const sharersOf = (sharers: string): string => `COALESCE(${sharers}, ${json('{}')})`
/** Attempt ids are hexadecimal; anything else could leave the path. */
export const jsonPath = (attempt: string): string => json(`$."${attempt.replace(/[^\w-]/g, '_')}"`)
/** @param how many of the paths there must be */
export const containsPath = (sharers: string, how: 'one' | 'all', paths: readonly string[]): string =>
  `JSON_CONTAINS_PATH(${sharersOf(sharers)}, ${json(how)}, ${paths.join(', ')})`
const holds = (attempt: string) => containsPath('sharers', 'one', [jsonPath(attempt)])

export const letters: { readonly exclusive: 'x'; readonly shared: 's'; readonly permits: 'p' } = {
  exclusive: 'x',
  shared: 's',
  permits: 'p',
}

export const permitCount = (mode: Mode): number => (mode.kind === 'permits' ? mode.take : 1)
export const permitLimit = (mode: Mode): number => (mode.kind === 'permits' ? mode.of : 0)

/** The condition on which a hold begins. */
export type Precondition =
  /** Nothing is known: only if the lock is free, or can be shared, and nobody waits. */
  | { readonly is: 'first' }
  /** The row was read and the claim fits: only if the row is still as it was then. */
  | {
      readonly is: 'unchanged'
      readonly version: number
      /** Sharers that hold beside it, as JSON, with the sum of their permits and the end of the last one in µs. */
      readonly beside: string
      readonly taken: number
      readonly until: number
      /** Only if nobody has entered the queue since; undefined for a claim that is itself queued. */
      readonly queueUntil: number | undefined
      /** The claim goes in beside waiters: newcomers must still see them. */
      readonly besideQueue?: boolean
    }

/** The request, as every take statement needs it. */
export interface AcquireParameters {
  readonly claim: Claim
  readonly by: string
  readonly guard: Precondition
  /** By the server's clock, in µs. */
  readonly latest: number
}

/**
 * What `first` asks is `present <= latest AND line_until <= now AND …`. As one range it evaluates `delay` once, and the server has less to parse:
 * `end <= now` means `end <= started AND end - started <= delay`.
 * @param end the column, or the later of several, that must be over
 */
function guarded({ guard, latest }: AcquireParameters, fits: string | undefined, end = 'line_until'): string {
  const over = `AND ${end} <= ${started}`
  const and = fits === undefined ? '' : ` AND (${fits})`
  if (guard.is === 'first')
    return `${delay} BETWEEN ${end} - ${started} AND ${whole(latest)} - ${started} ${over}${and}`
  const line = guard.queueUntil === undefined ? '' : ` AND line_until = ${whole(guard.queueUntil)}`
  return `${present} <= ${whole(latest)} AND version = ${whole(guard.version)}${line}`
}

/** A newcomer that has looked and seen no fresh waiter ends the time in which others must look. */
const clearsQueue = (guard: Precondition) =>
  guard.is === 'unchanged' && guard.queueUntil !== undefined && !guard.besideQueue
const clearedQueue = (guard: Precondition) => (clearsQueue(guard) ? { line_until: '0' } : {})

/** How a hold begins: what is written, and on what condition. In this order no right side depends on a column to its left. */
export interface HoldStart {
  readonly columns: Readonly<Record<string, string>>
  readonly guard: string
}

/** @param token the expression by which the server computes its token */
export function holdStart(taking: AcquireParameters, token: string): HoldStart {
  return taking.claim.mode.kind === 'exclusive' ? exclusiveHold(taking, token) : sharedHold(taking, token)
}

const assignments = ({ columns }: HoldStart) =>
  Object.entries(columns)
    .map(([column, value]) => `${column} = ${value}`)
    .join(', ')

/** A new row has a time in `top`, so tokens follow the real clock also where the time is fixed. */
const nextToken = `GREATEST(top + 1, ${started})`

/**
 * Begins a hold, alone or beside those that share the lock.
 * @returns id: its token; 0: not taken
 */
export function acquire(tables: Tables, parameters: AcquireParameters): string {
  const begins = holdStart(parameters, nextToken)
  const columns = { ...begins, columns: { ...begins.columns, token: `LAST_INSERT_ID(${nextToken})` } }
  return `UPDATE ${tables.locks} SET ${assignments(columns)}
WHERE name = ${bytes(parameters.claim.name)} AND ${begins.guard}`
}

/** An exclusive hold, with tokens reserved for hand-overs inside its process. */
function exclusiveHold(taking: AcquireParameters, token: string): HoldStart {
  const { claim, by, guard } = taking
  return {
    columns: {
      ...{ sharers: 'NULL', taken: '0', permits: '0', owner: bytes(claim.attempt), ttl: micros(claim.ttl) },
      ...{ version: 'version + 1', since: present, by_whom: bytes(by), note: bytes(claim.note ?? '') },
      ...{ token, top: `${token} + ${tokenReserve}`, kind: `'x'`, until: `${later} + ${micros(claim.ttl)}` },
      ...clearedQueue(guard),
    },
    guard: guarded(taking, undefined, 'GREATEST(line_until, until)'),
  }
}

/** The end of what has none. */
export const forever: number = Number.MAX_SAFE_INTEGER

/**
 * The end of a hold that lasts as long as a connection: `forever` less the id of that connection, which has 32 bits, so it is later than any
 * time. `forever` itself names none: an older version wrote it, or a server that counts further.
 */
const sessionEnd = `${forever} - IF(CONNECTION_ID() < ${2 ** 32}, CONNECTION_ID(), 0)`

/**
 * The id of the connection a row of kind g belongs to. For a row that names none: of whichever has the GET_LOCK, or NULL.
 * @param lock name of the GET_LOCK @param row alias of the row, with a dot
 */
export function sessionConnection(lock: string, row = ''): string {
  return `IF(${row}until = ${forever}, IS_USED_LOCK(${lock}), ${forever} - ${row}until)`
}

/**
 * Whether a row of kind g is still held: by its own connection. If another one has the GET_LOCK, its claim has not written the row yet, and the
 * hold that the row shows has ended.
 */
export function isSessionHeld(lock: string, row = ''): string {
  return `IF(${row}until = ${forever}, IS_USED_LOCK(${lock}) IS NOT NULL, IS_USED_LOCK(${lock}) <=> ${forever} - ${row}until)`
}

/**
 * The same for a claim that has the GET_LOCK of the row: whatever had it before has ended.
 * @returns id: its token; 0: not taken
 */
export function acquireSession(tables: Tables, taking: AcquireParameters): string {
  const { claim, by, guard } = taking
  return `UPDATE ${tables.locks} SET kind = 'g', owner = ${bytes(claim.attempt)}, sharers = NULL, taken = 0, permits = 0,
  version = version + 1, since = ${present}, ttl = ${micros(claim.ttl)}, by_whom = ${bytes(by)}, note = ${bytes(claim.note ?? '')},
  token = LAST_INSERT_ID(${nextToken}), top = ${nextToken} + ${tokenReserve},
  until = ${sessionEnd}${clearsQueue(guard) ? ', line_until = 0' : ''}
WHERE name = ${bytes(claim.name)} AND ${guarded(taking, `until <= ${now} OR kind = 'g'`)}`
}

/** A sharer's entry: permits, token, since, longest until, ttl, by, note; only the times are the server's. */
function entry(
  take: number,
  token: string,
  since: string,
  claim: Claim,
  by: string,
  until: string = `${later} + ${micros(claim.ttl)}`,
): string {
  const rest = ` ${micros(claim.ttl)} ${encodeURIComponent(by) || '-'} ${encodeURIComponent(claim.note ?? '') || '-'}`
  return utf8(`CONCAT('${whole(take)} ', ${token}, ' ', ${since}, ' ', ${until}, ${chars(rest)})`)
}

/** A shared hold or permits, beside existing ones. */
function sharedHold(taking: AcquireParameters, token: string): HoldStart {
  const { claim, by, guard } = taking
  const { mode, attempt } = claim
  const [take, of, kind] = [permitCount(mode), permitLimit(mode), letters[mode.kind]]
  const seen = guard.is === 'unchanged'
  const beside = seen ? chars(guard.beside) : `IF(until <= ${now}, ${json('{}')}, ${sharersOf('sharers')})`
  const taken = seen ? whole(guard.taken) : `IF(until <= ${now}, 0, taken)`
  const until = seen ? whole(guard.until) : 'until'
  const room = kind === 's' ? '' : ` AND permits = ${whole(of)} AND taken + ${whole(take)} <= ${whole(of)}`
  return {
    columns: {
      sharers: `JSON_SET(${beside}, ${jsonPath(attempt)}, ${entry(take, token, present, claim, by)})`,
      ...{ taken: `${taken} + ${whole(take)}`, permits: whole(of), owner: 'NULL' },
      ttl: `GREATEST(IF(until <= ${now} OR kind <> '${kind}', 0, ttl), ${micros(claim.ttl)})`,
      ...{ version: 'version + 1', since: present, token, top: token, kind: `'${kind}'` },
      until: `GREATEST(${until}, ${later} + ${micros(claim.ttl)})`,
      ...clearedQueue(guard),
    },
    guard: guarded(taking, `until <= ${now} OR (kind = '${kind}'${room} AND NOT ${holds(attempt)})`),
  }
}

/** A hold as its owner knows it, for the statements that prove or end it. */
export interface HoldRow {
  readonly claim: Claim
  readonly token: number
  /** When it began, in µs; only sharers carry it along. */
  readonly since: number
  readonly by: string
}

/** A sharer's entry, as it is after a renewal. @param until the expression by which the server computes its end; default: after its ttl */
export function sharedEntry({ claim, token, since, by }: HoldRow, until?: string): string {
  return entry(permitCount(claim.mode), `'${whole(token)}'`, `'${whole(since)}'`, claim, by, until)
}

/** A late copy shortens nothing: see `shorten` for what does. @returns id: the new end, in µs, if it was later; 0: no longer held */
export function renew(tables: Tables, held: HoldRow): string {
  const { claim } = held
  const ends = `${later} + ${micros(claim.ttl)}`
  if (claim.mode.kind === 'exclusive') {
    return `UPDATE ${tables.locks} SET version = version + 1, ttl = GREATEST(ttl, ${micros(claim.ttl)}),
  until = ${noSooner('until', `LAST_INSERT_ID(${ends})`)}
WHERE name = ${bytes(claim.name)} AND kind = 'x' AND owner = ${bytes(claim.attempt)}`
  }
  return `UPDATE ${tables.locks} SET version = version + 1, ttl = GREATEST(ttl, ${micros(claim.ttl)}),
  sharers = JSON_SET(sharers, ${jsonPath(claim.attempt)}, ${sharedEntry(held, noSooner(sharedEnd(claim), ends))}),
  until = ${noSooner('until', `LAST_INSERT_ID(${ends})`)}
WHERE name = ${bytes(claim.name)} AND kind IN ('s', 'p') AND ${holds(claim.attempt)}`
}

/** The later of two ends. One further away than the longest ttl is of before the clock was set back. @param row alias of the row, with a dot */
export function noSooner(end: string, ends: string, row = ''): string {
  return `GREATEST(LEAST(${end}, ${later} + ${row}ttl), ${ends})`
}

/** The end in a sharer's entry, in µs. @param row alias of the row, with a dot */
export function sharedEnd({ attempt }: Claim, row = ''): string {
  const entry = `JSON_UNQUOTE(JSON_EXTRACT(${row}sharers, ${jsonPath(attempt)}))`
  return `CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(${entry}, ' ', 4), ' ', -1) AS SIGNED)`
}

/** @returns a row with the end of the hold, in µs; none: no longer held */
export function readEnd(tables: Tables, { claim }: HoldRow): string {
  const where = ownCondition(claim)
  return `SELECT ${claim.mode.kind === 'exclusive' ? 'until' : sharedEnd(claim)} FROM ${tables.locks} WHERE ${where} LIMIT 1`
}

/**
 * A renewal that may end the hold sooner. It applies to one end only, so that a copy of it that arrives after a later renewal changes nothing.
 * @param end the end that the hold has, in µs
 * @returns id: the new end, in µs; 0: no longer held, or the end has changed
 */
export function shorten(tables: Tables, held: HoldRow, end: number): string {
  const { claim } = held
  const ends = `LAST_INSERT_ID(${later} + ${micros(claim.ttl)})`
  const head = `UPDATE ${tables.locks} SET version = version + 1,`
  if (claim.mode.kind === 'exclusive')
    return `${head} ttl = ${micros(claim.ttl)}, until = ${ends} WHERE ${ownCondition(claim)} AND until = ${whole(end)}`
  // The row lasts as long as its longest sharer.
  return `${head} sharers = JSON_SET(sharers, ${jsonPath(claim.attempt)}, ${sharedEntry(held)}), until = GREATEST(until, ${ends})
WHERE ${ownCondition(claim)} AND ${sharedEnd(claim)} = ${whole(end)}`
}

function ownCondition({ name, attempt, mode }: Claim): string {
  const own =
    mode.kind === 'exclusive'
      ? `kind = 'x' AND owner = ${bytes(attempt)}`
      : `kind IN ('s', 'p') AND ${holds(attempt)}`
  return `name = ${bytes(name)} AND ${own}`
}

/**
 * Ends a hold. The row stays: it carries the newest token, and rows that come and go cause deadlocks.
 * @param last the greatest token used
 * @returns id: not 0 if it was held
 */
export function release(tables: Tables, { mode, name, attempt }: Claim, last: number): string {
  if (mode.kind === 'exclusive') {
    return `UPDATE ${tables.locks} SET version = version + 1, kind = '-', owner = NULL, until = 0,
  top = LAST_INSERT_ID(GREATEST(token, LEAST(${whole(last)}, top)))
WHERE name = ${bytes(name)} AND kind IN ('x', 'g') AND owner = ${bytes(attempt)}`
  }
  const take = whole(permitCount(mode))
  return `UPDATE ${tables.locks} SET version = version + 1, sharers = JSON_REMOVE(sharers, ${jsonPath(attempt)}),
  until = IF(taken <= ${take}, 0, until), taken = GREATEST(taken - ${take}, 0), top = LAST_INSERT_ID(top)
WHERE name = ${bytes(name)} AND kind IN ('s', 'p') AND ${holds(attempt)}`
}

/**
 * Turns an exclusive hold into a shared one in one step.
 * @returns id: not 0 if it was held
 */
export function downgrade(tables: Tables, { claim, since, by }: HoldRow, last: number): string {
  const alone = `JSON_SET(${json('{}')}, ${jsonPath(claim.attempt)}, ${entry(1, `'${whole(last)}'`, `'${whole(since)}'`, claim, by)})`
  return `UPDATE ${tables.locks} SET version = version + 1, kind = 's', owner = NULL, sharers = ${alone}, taken = 1, permits = 0,
  until = ${later} + ${micros(claim.ttl)}, token = ${whole(last)}, top = LAST_INSERT_ID(${whole(last)})
WHERE name = ${bytes(claim.name)} AND kind = 'x' AND owner = ${bytes(claim.attempt)}`
}

/** Creates the row of a lock. Whether it already existed does not matter and is not checked. */
export function create(tables: Tables, name: string): string {
  return `INSERT IGNORE INTO ${tables.locks} (name, top) VALUES (${bytes(name)}, ${later})`
}

const lockColumns = `l.kind, l.owner, l.until, l.token, l.top, l.version, l.ttl, l.since, CAST(l.sharers AS BINARY) AS sharers, l.taken, l.permits,
  l.line_until, l.by_whom, l.note`

const orphaned = (tables: Tables) =>
  `IF(l.kind = 'g', NOT ${isSessionHeld(userLock(tables, 'HEX(l.name)'), 'l.')}, 0)`

/** How long a waiter is presumed alive after a refresh, in µs. */
export const livenessWindow = 3_000_000
/** A time ahead of the clock was set before the clock was put back; a live waiter refreshes its entry within a second. */
const fresh = (row: string) =>
  `${row}.seen > ${present} - ${livenessWindow} AND ${row}.seen <= ${present} + ${livenessWindow}`

/**
 * Looks, without any lock.
 * @param ticket of the waiter that looks; undefined: it has none
 * @returns now; the row (see `decision.ts`); 1 if it is held by a session that has ended; how many fresh waiters are ahead that it must
 *   not overtake (a reader may enter beside readers); how many permits they wait for, counting all for each that waits for something else;
 *   for a queued waiter, ticket and `seen` of the first of them; and the present moment
 */
export function readRow(tables: Tables, { name, mode }: Claim, ticket: number | undefined): string {
  const reader = mode.kind === 'shared' ? ` AND w.kind <> 's'` : ''
  const before = `${reader}${ticket === undefined ? '' : ` AND w.id < ${whole(ticket)}`}`
  const of = whole(permitLimit(mode))
  const line = `FROM ${tables.waiters} w WHERE w.name = ${bytes(name)}${before} AND ${fresh('w')}`
  const wanted = `(SELECT SUM(IF(w.kind = 'p' AND w.permits = ${of}, w.take, ${of})) ${line})`
  const first = `(SELECT CONCAT(w.id, x'20', w.seen) ${line} ORDER BY w.id LIMIT 1)`
  return `SELECT ${now} AS time, ${lockColumns}, ${orphaned(tables)} AS orphaned,
  (SELECT COUNT(*) ${line}) AS ahead, ${mode.kind === 'permits' ? wanted : '0'} AS wanted, ${ticket === undefined ? 'NULL' : first} AS first_ahead, ${present} AS present
FROM ${tables.locks} l WHERE l.name = ${bytes(name)} LIMIT 1`
}

/** From now on newcomers look for a queue before they take. @returns id: not 0 if there is such a row */
export function setWaitersFlag(tables: Tables, name: string): string {
  return `UPDATE ${tables.locks} SET line_until = LAST_INSERT_ID(${present} + ${livenessWindow}) WHERE name = ${bytes(name)}`
}

/** Inserts a queue entry; the same again keeps it. @returns id: the ticket; 0: it is another claim's (`SET insert_id`), and nothing was changed */
export function enqueue(tables: Tables, { name, attempt, mode, note = '' }: Claim, by: string): string {
  return `INSERT INTO ${tables.waiters} (name, attempt, kind, take, permits, since, seen, by_whom, note)
VALUES (${bytes(name)}, ${bytes(attempt)}, '${letters[mode.kind]}', ${whole(permitCount(mode))}, ${whole(permitLimit(mode))}, ${present}, ${present}, ${bytes(by)}, ${bytes(note)})
ON DUPLICATE KEY UPDATE seen = IF(LAST_INSERT_ID(IF(attempt = ${bytes(attempt)}, id, 0)) = 0, seen, ${present})`
}

/** Reports that it still waits. @returns id: not 0 if the entry is still there */
export function refresh(tables: Tables, ticket: number): string {
  return `UPDATE ${tables.waiters} SET seen = LAST_INSERT_ID(${present}) WHERE id = ${whole(ticket)}`
}

/** The same for many, in any queue. It waits for no row: it skips those that somebody else has locked, until the next time. */
export function refreshAll(tables: Tables, tickets: readonly number[]): string {
  return `UPDATE (SELECT id FROM ${tables.waiters} WHERE id IN (${tickets.map(whole).join(', ')}) LIMIT ${tickets.length} FOR UPDATE SKIP LOCKED) d
  STRAIGHT_JOIN ${tables.waiters} w ON w.id = d.id SET w.seen = ${present}`
}

/** Which of these entries there are. @returns a row with the ticket of each */
export function existing(tables: Tables, tickets: readonly number[]): string {
  return `SELECT id FROM ${tables.waiters} WHERE id IN (${tickets.map(whole).join(', ')}) ${unlimited}`
}

/** A waiter that has not refreshed its entry since blocks nobody until it does; it keeps its entry. @param stamp ticket and `seen` */
export function skip(tables: Tables, stamp: string): string {
  const [id, seen] = stamp.split(' ').map(Number)
  return `UPDATE ${tables.waiters} SET seen = 0 WHERE id = ${whole(Number(id))} AND seen = ${whole(Number(seen))}`
}

export function leave(tables: Tables, attempt: string): string {
  return `DELETE FROM ${tables.waiters} WHERE attempt = ${bytes(attempt)}`
}

const waiterColumns = 'w.name, w.attempt, w.kind, w.take, w.permits, w.since, w.by_whom, w.note'

/**
 * For one name or for all that begin with it.
 * @returns now, the row, 1 if it is held by a session that has ended, its name
 */
export function rows(tables: Tables, name: string, how: 'one' | 'beginning'): string {
  return `SELECT ${now} AS time, ${lockColumns}, ${orphaned(tables)} AS orphaned, l.name
FROM ${tables.locks} l WHERE ${matching('l', name, how)}${how === 'one' ? '' : ` AND (l.until > ${now} OR l.line_until > ${now})`} ${unlimited}`
}

/** @returns now and the fresh waiters, in queue order */
export function readQueue(tables: Tables, name: string, how: 'one' | 'beginning'): string {
  return `SELECT ${present} AS time, ${waiterColumns} FROM ${tables.waiters} w WHERE ${matching('w', name, how)} AND ${fresh('w')} ORDER BY w.id ${unlimited}`
}

function matching(row: string, name: string, how: 'one' | 'beginning'): string {
  if (how === 'one') return `${row}.name = ${bytes(name)}`
  return name === ''
    ? '1 = 1'
    : `LEFT(${row}.name, ${Buffer.byteLength(name)}) = ${bytes(name)} AND ${row}.name >= ${bytes(name)}`
}

/** @returns names of locks unused for `retention` ms */
export function idle(tables: Tables, retention: number): string {
  return `SELECT l.name FROM ${tables.locks} l WHERE ${unused('l.', retention)} LIMIT 100`
}

/** The clock is the floor of tokens: a recreated row continues above those of a row as old as this. */
export function drop(tables: Tables, name: string, retention: number): string {
  return `DELETE FROM ${tables.locks} WHERE name = ${bytes(name)} AND ${unused('', retention)}`
}

const unused = (row: string, retention: number) =>
  `${row}until <= ${now} AND ${row}line_until <= ${now} AND ${row}top < ${now} - ${micros(retention)}`

/** @returns attempts of waiters that have not refreshed their entries for a minute */
export function gone(tables: Tables): string {
  return `SELECT w.attempt FROM ${tables.waiters} w WHERE w.seen < ${present} - 60000000 OR w.seen > ${present} + 60000000 LIMIT 100`
}

/** @returns now and the server's version */
export const hello: string = `SELECT ${present} AS time, VERSION() AS version LIMIT 1`

/** Never blocks the connection that all locks of a process share. @returns 1: acquired */
export function getLock(tables: Tables, name: string): string {
  return `SELECT GET_LOCK(${userLockName(tables, name)}, 0) AS acquired LIMIT 1`
}

export function unlock(tables: Tables, name: string): string {
  return `DO RELEASE_LOCK(${userLockName(tables, name)})`
}

/** @returns name and owner of each row that is held by a session */
export function owners(tables: Tables, names: readonly string[]): string {
  return `SELECT name, owner FROM ${tables.locks} WHERE kind = 'g' AND name IN (${names.map(bytes).join(', ')}) ${unlimited}`
}

const notifierLockName = (tables: Tables, name: string) => userLock(tables, hexOf(name), 'hb')

/** @returns 1: acquired within `seconds` */
export function getNotifierLock(tables: Tables, name: string, seconds: number): string {
  return `SELECT GET_LOCK(${notifierLockName(tables, name)}, ${whole(seconds)}) AS acquired LIMIT 1`
}

export function releaseNotifierLock(tables: Tables, name: string): string {
  return `DO RELEASE_LOCK(${notifierLockName(tables, name)})`
}
