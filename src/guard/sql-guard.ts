/**
 * Guards of rows: the token is compared and stored in the very statement that writes, so no pause fits in between.
 *
 * A count of rows is not proof on MySQL, where clients may or may not count what an update matched without changing. So 0 leads
 * to a second look: a newer fence means stale, ours means that the write had been done already.
 */
import { StaleTokenError } from '../core/errors.js'
import { checkFence, type Fence, tokenFrom } from './fence.js'
import {
  deleteStatement,
  readStatement,
  type Statement,
  type Target,
  updateStatement,
  upsertStatement,
  type Values,
} from './sql.js'
import type { Sql } from './sql-client.js'

export interface GuardedRow extends Target {
  /** Columns and their new values, or `expression('stock - ?', 1)`. */
  readonly set: Values
  /** The lease whose lock protects the row. */
  readonly fence: Fence
}

/**
 * Writes a row unless it has seen a newer token; remembers the token in it. Resolves with true when it was written, false when
 * there is no such row. The same write sent twice with plain values does no harm.
 * @throws StaleTokenError when a newer token was there; LeaseLostError when the lease is known to be lost; what the client throws
 */
export async function guardedUpdate(db: Sql, row: GuardedRow): Promise<boolean> {
  const fence = checkFence(row.fence)
  return guarded(db, row, fence, updateStatement(db.dialect, row, row.set, fence.token))
}

/**
 * Deletes a row unless it has seen a newer token. With the row goes the memory of its tokens: a late `guardedUpsert` could bring it
 * back. Where that matters, mark rows as deleted with `guardedUpdate`, or use `admit`.
 * Resolves and throws as `guardedUpdate`.
 */
export async function guardedDelete(db: Sql, row: Omit<GuardedRow, 'set'>): Promise<boolean> {
  const fence = checkFence(row.fence)
  return guarded(db, row, fence, deleteStatement(db.dialect, row, fence.token))
}

/**
 * Inserts a row, or writes it over unless it has seen a newer token. `key` must be exactly its primary key or one unique key;
 * on MySQL the row is found by any of its unique keys. Throws as `guardedUpdate`.
 */
export async function guardedUpsert(db: Sql, row: GuardedRow): Promise<void> {
  const fence = checkFence(row.fence)
  const { changed } = await send(db, upsertStatement(db.dialect, row, row.set, fence.token))
  // MySQL counts 2 for a row written over; its 1 may be a row inserted, or one that was found and left as it was.
  if (changed >= (db.dialect === 'mysql' ? 2 : 1)) return
  const newest = await newestOf(db, row)
  if (newest !== undefined && newest > fence.token) throw new StaleTokenError(fence.name, fence.token, newest)
}

async function guarded(db: Sql, row: Target, fence: Fence, statement: Statement): Promise<boolean> {
  for (;;) {
    if ((await send(db, statement)).changed > 0) return true
    const newest = await newestOf(db, row)
    if (newest === undefined) return false
    if (newest > fence.token) throw new StaleTokenError(fence.name, fence.token, newest)
    // It stands there as we wanted it: this client counts changed rows only, and nothing had to be changed.
    if (newest === fence.token) return true
    // The row has come since, with an older token.
  }
}

/** Read under the row's lock: a plain read in a transaction may see a snapshot older than what the write was refused for. */
async function newestOf(db: Sql, target: Target): Promise<number | undefined> {
  const [row] = (await send(db, readStatement(db.dialect, target))).rows
  return row === undefined ? undefined : tokenFrom(row['fence'])
}

const send = (db: Sql, { text, values }: Statement) => db.run(text, values)

export interface FenceTable {
  /** @default 'holdfast_fences' */
  readonly table?: string
}

/**
 * The first statement of a transaction that writes to several rows or tables: everything in it is done under the fence. Stores the
 * token under the lock's name, and keeps that row locked until the transaction ends, so that a newer holder waits for the
 * commit and an older one is refused. Throw what it throws, so that the transaction is rolled back.
 * @param db a transaction; outside of one it guards nothing
 * @throws StaleTokenError, LeaseLostError; what the client throws
 */
export async function admit(
  db: Sql,
  fence: Fence,
  { table = 'holdfast_fences' }: FenceTable = {},
): Promise<void> {
  checkFence(fence)
  const target: Target = { table, key: { name: fence.name }, column: 'token' }
  await send(db, upsertStatement(db.dialect, target, {}, fence.token))
  const newest = await newestOf(db, target)
  if (newest === undefined || newest > fence.token) throw new StaleTokenError(fence.name, fence.token, newest)
}

/** What `admit` needs, to run once: `for (const statement of fenceSchema('mysql')) await db.run(statement, [])`. */
export function fenceSchema(dialect: Sql['dialect'], table = 'holdfast_fences'): readonly string[] {
  const name = dialect === 'mysql' ? 'varbinary(512)' : 'text'
  return [`create table if not exists ${table} (name ${name} not null primary key, token bigint not null)`]
}
