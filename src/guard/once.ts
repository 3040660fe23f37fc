/**
 * The idempotency record: a repeated request is carried out once, because "done" is written in the same transaction
 * as the work. A lock cannot do that: the second request would simply run after the first.
 */
import { randomBytes } from 'node:crypto'
import { types } from 'node:util'
import { checkName, describe } from '../core/name.js'
import type { Fence } from './fence.js'
import { columnOf, type Sql, type SqlRow } from './sql-client.js'
import { admit } from './sql-guard.js'
import { ownKey, Text } from './sql-text.js'

export interface OnceOptions {
  /** @default 'holdfast_once' */
  readonly table?: string
  /** The lease under which the work is done: a stale one is refused before anything is written. */
  readonly fence?: Fence
}

export interface OnceResult<R> {
  /** What `fn` returned, now or the first time: its JSON copy, the first time too. */
  readonly result: R
  /** True: it had been done before, and `fn` did not run. */
  readonly repeated: boolean
}

/**
 * Runs `fn` unless `key` is recorded, and records it with its result. Of two transactions with one key at the same
 * time, the second waits until the first has ended, then gets its result, or runs when the first was rolled back.
 * @param db the transaction in which `fn` writes. The caller rolls it back when this throws
 * @throws Error when the key was recorded outside of a transaction and left half done; what `fn` and the client
 * throw. MySQL may break a tie of two transactions by a deadlock error: run the transaction again, as always there
 */
export async function once<R>(
  db: Sql,
  key: string,
  fn: () => R | Promise<R>,
  { table = 'holdfast_once', fence }: OnceOptions = {},
): Promise<OnceResult<R>> {
  checkName(key, 'key')
  if (typeof table !== 'string' || table === '')
    throw new TypeError(`table must be the name of a table, got ${describe(table)}`)
  if (fence !== undefined) await admit(db, fence)
  const attempt = randomBytes(16).toString('hex')
  await insert(db, table, key, attempt)
  const found = await read(db, table, key)
  if (found === undefined)
    throw new Error(`${table} lost the record of ${key} within one transaction; is it one?`)
  if (found.attempt !== attempt) {
    if (!found.done)
      throw new Error(
        `${key} is recorded in ${table} but not as done: it was begun outside of a transaction; delete the row once you know what was done`,
      )
    return { result: found.result as R, repeated: true }
  }
  const json = toJson(key, await fn())
  await finish(db, table, key, json)
  return { result: parseResult(json) as R, repeated: false }
}

/**
 * Takes the key, or waits for a transaction that takes it at the same time. Parameters: key, attempt. Its row count
 * proves nothing on MySQL.
 */
async function insert(db: Sql, table: string, key: string, attempt: string): Promise<void> {
  const to = new Text(db.dialect)
  const values = `(${to.value(ownKey(db.dialect, key), 'key')}, ${to.value(attempt, 'attempt')})`
  const taken = db.dialect === 'mysql' ? 'on duplicate key update id = id' : 'on conflict (id) do nothing'
  const { text, values: sent } = to.as(
    `insert into ${to.name(table)} (id, attempt) values ${values} ${taken}`,
  )
  await db.run(text, sent)
}

/**
 * Who took the key, and with what result: the newest record, also in a transaction that reads a snapshot. Parameters: key. Texts come behind
 * an equals sign: a client that converts what looks like JSON or like a number leaves them as they are.
 */
async function read(
  db: Sql,
  table: string,
  key: string,
): Promise<{ attempt: string; done: boolean; result: unknown } | undefined> {
  const to = new Text(db.dialect)
  const { text, values } = to.as(
    `select concat('=', attempt) as attempt, done, concat('=', result) as result from ${to.name(table)} where id = ${to.value(ownKey(db.dialect, key), 'key')} for update`,
  )
  const [row] = (await db.run(text, values)).rows
  if (row === undefined) return undefined
  return {
    attempt: textOf(row, 'attempt', table),
    done: Number(columnOf(row, 'done', table)) === 1,
    result: parseResult(textOf(row, 'result', table)),
  }
}

/** A result that is NULL is '' from PostgreSQL and null from MySQL, where `concat` differs. */
function textOf(row: SqlRow, column: string, table: string): string {
  const value = columnOf(row, column, table)
  const text = types.isUint8Array(value) ? Buffer.from(value).toString() : value
  if (text === null) return ''
  if (typeof text === 'string' && text.startsWith('=')) return text.slice(1)
  throw new TypeError(
    `${table}: the client has converted the text of ${column} to ${describe(text)}; once() needs it unchanged: give it a client without such a typeCast, type parser or transform`,
  )
}

/**
 * In ASCII, which no character set of a connection, a database or a table changes or refuses.
 * @returns `null`: nothing @throws TypeError for what JSON cannot represent, before it is recorded
 */
function toJson(key: string, result: unknown): string | null {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  try {
    return JSON.stringify(result)?.replace(/[\u0080-\uffff]/g, escaped) ?? null
  } catch (error) {
    throw new TypeError(`the result of ${key} cannot be kept as JSON: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

function parseResult(json: string | null): unknown {
  return json === null || json === '' ? undefined : JSON.parse(json)
}

/** Parameters: result, key. */
async function finish(db: Sql, table: string, key: string, json: string | null): Promise<void> {
  const to = new Text(db.dialect)
  const { text, values } = to.as(
    `update ${to.name(table)} set done = 1, result = ${to.value(json, 'result')} where id = ${to.value(ownKey(db.dialect, key), 'key')}`,
  )
  await db.run(text, values)
}

/**
 * The schema for `once`: statements to run one after the other, once. Delete rows by `made_at` when nobody will
 * repeat such a request any more.
 */
export function onceSchema(dialect: Sql['dialect'], table = 'holdfast_once'): readonly string[] {
  const [id, long] = dialect === 'mysql' ? ['varbinary(512)', 'longtext'] : ['text', 'text']
  const columns = [
    `id ${id} not null primary key`,
    'attempt char(32) not null',
    'done smallint not null default 0',
    `result ${long}`,
    'made_at timestamp not null default current_timestamp',
  ]
  return [`create table if not exists ${new Text(dialect).name(table)} (${columns.join(', ')})`]
}
