/**
 * Guards of rows: the very statement that writes also compares and stores the token, so no pause fits in between.
 *
 * A row count is not proof on MySQL, where clients may or may not count rows that an update matched without changing.
 * So 0 leads to a second read: a newer fence means stale, ours means that the write had already been done.
 */
import { StaleTokenError } from '../core/errors.js'
import { checkFence, type Fence, tokenFrom } from './fence.js'
import { isSqlAnswer, reportUnknown } from './outcome.js'
import {
  deleteStatement,
  readStatement,
  type Statement,
  selectStatement,
  type Target,
  updateStatement,
  upsertStatement,
  type Values,
} from './sql.js'
import { columnOf, type Dialect, type Sql, type SqlAnswer, type SqlRow } from './sql-client.js'
import { ownKey, Text } from './sql-text.js'

export interface GuardedRow extends Target {
  /** Columns and their new values, `expression('stock - ?', 1)`, or `json(value)` for a column of type JSON. */
  readonly set: Values
  /** The lease whose lock protects the row. */
  readonly fence: Fence
}

/**
 * Writes a row unless it has seen a newer token; remembers the token in it. Resolves with true when the row was
 * written, false when there is no such row. The same write sent twice with plain values does no harm. To compute a
 * value from the row, read the row with `guardedRead`, or after `admit`.
 * @throws StaleTokenError when a newer token was there; LeaseLostError when the lease is known to be lost; BackendError with `outcome:
 * 'unknown'` when the reply was lost, so that the write may or may not have been applied; what the database answers
 */
export async function guardedUpdate(db: Sql, row: GuardedRow): Promise<boolean> {
  const fence = checkFence(row.fence)
  return guarded(db, row, fence, updateStatement(db.dialect, row, row.set, fence.token))
}

/**
 * Token first, then read: remembers the token in the row, then reads it. From then on no older holder writes the row,
 * so what is computed from it and written with `guardedUpdate` is either the next value or refused. With a plain
 * read, an older holder may still write between the read and the first write, and its write is lost. Resolves with
 * the row, or `undefined` when there is none. Throws as `guardedUpdate`.
 */
export async function guardedRead(db: Sql, row: Omit<GuardedRow, 'set'>): Promise<SqlRow | undefined> {
  if (!(await guardedUpdate(db, { ...row, set: {} }))) return undefined
  const { text, values } = selectStatement(db.dialect, row)
  return (await db.run(text, values)).rows[0]
}

/**
 * Deletes a row unless it has seen a newer token. The memory of its tokens goes with the row: a late `guardedUpsert`
 * could bring it back. Where that matters, mark rows as deleted with `guardedUpdate`, or use `admit`. Resolves and
 * throws as `guardedUpdate`.
 */
export async function guardedDelete(db: Sql, row: Omit<GuardedRow, 'set'>): Promise<boolean> {
  const fence = checkFence(row.fence)
  return guarded(db, row, fence, deleteStatement(db.dialect, row, fence.token))
}

/**
 * Inserts a row, or overwrites it unless it has seen a newer token. Takes no expressions: an inserted row has nothing
 * to compute from. `key` must be exactly its primary key or one unique key; on MySQL the row is found by any of its
 * unique keys. Throws as `guardedUpdate`.
 */
export async function guardedUpsert(db: Sql, row: GuardedRow): Promise<void> {
  const fence = checkFence(row.fence)
  const statement = upsertStatement(db.dialect, row, row.set, fence.token)
  const send = sending(db, row, fence)
  for (let attempt = 0; attempt < attempts; attempt++) {
    const { changed } = await send(statement)
    // MySQL counts 2 for an overwritten row; its 1 may be an inserted row, or one that was found and left as it was.
    if (changed >= (db.dialect === 'mysql' ? 2 : 1)) return
    const newest = await readNewest(send, db.dialect, row)
    if (newest !== undefined && newest > fence.token)
      throw new StaleTokenError(fence.name, fence.token, newest)
    if (db.dialect === 'mysql') return
    // The row with the newer token was deleted since.
  }
  throw new Error(unwritten(row, fence))
}

/** How often a write is sent that neither reached the row nor was refused by its fence: each time somebody must have replaced the row. */
const attempts = 10

const unwritten = ({ table }: Target, { token }: Fence) =>
  `${table}: a write with token ${token} did not reach its row, which has no newer token; is it held back by a trigger, a rule or a policy?`

type Send = (statement: Statement) => Promise<SqlAnswer>

/** For the write and the reads that follow it, which tell whether it was applied: while any of them has no reply, that is unknown. */
function sending(db: Sql, { table }: Target, { token }: Fence): Send {
  const what = `the write to ${table} with token ${token}`
  return ({ text, values }) => reportUnknown(db.dialect, what, isSqlAnswer, async () => db.run(text, values))
}

async function guarded(db: Sql, row: Target, fence: Fence, statement: Statement): Promise<boolean> {
  const send = sending(db, row, fence)
  for (let attempt = 0; attempt < attempts; attempt++) {
    if ((await send(statement)).changed > 0) return true
    const newest = await readNewest(send, db.dialect, row)
    if (newest === undefined) return false
    if (newest > fence.token) throw new StaleTokenError(fence.name, fence.token, newest)
    // The row already is as we wanted it: this client counts changed rows only, and nothing had to be changed.
    if (newest === fence.token) return true
    // The row was inserted since, with an older token.
  }
  throw new Error(unwritten(row, fence))
}

/** Reads under the row's lock: a plain read in a transaction may see a snapshot older than what caused the refusal. */
async function readNewest(send: Send, dialect: Dialect, target: Target): Promise<number | undefined> {
  const [row] = (await send(readStatement(dialect, target))).rows
  return row === undefined ? undefined : tokenFrom(columnOf(row, 'fence', target.table), target.table)
}

export interface FenceTable {
  /** @default 'holdfast_fences' */
  readonly table?: string
}

/**
 * The first statement of a transaction that writes to several rows or tables: everything in the transaction is done
 * under the fence, its reads included: read after it, not before. It stores the token under the lock's name, and
 * keeps that row locked until the transaction ends, so that a newer holder waits for the commit and an older one is
 * refused. Throw what it throws, so that the transaction is rolled back.
 * @param db a transaction; outside of one it guards nothing
 * @throws StaleTokenError, LeaseLostError; what the client throws
 */
export async function admit(
  db: Sql,
  fence: Fence,
  { table = 'holdfast_fences' }: FenceTable = {},
): Promise<void> {
  checkFence(fence)
  const target: Target = { table, key: { name: ownKey(db.dialect, fence.name) }, column: 'token' }
  // In a transaction nothing is applied until its commit, which is not ours: the client's errors say enough.
  const send: Send = ({ text, values }) => db.run(text, values)
  await send(upsertStatement(db.dialect, target, {}, fence.token))
  const newest = await readNewest(send, db.dialect, target)
  if (newest === undefined || newest > fence.token) throw new StaleTokenError(fence.name, fence.token, newest)
}

/**
 * The schema for `admit`: statements to run one after the other, once:
 * `for (const statement of fenceSchema('mysql')) await db.run(statement, [])`.
 */
export function fenceSchema(dialect: Sql['dialect'], table = 'holdfast_fences'): readonly string[] {
  const name = dialect === 'mysql' ? 'varbinary(512)' : 'text'
  return [
    `create table if not exists ${new Text(dialect).name(table)} (name ${name} not null primary key, token bigint not null)`,
  ]
}
