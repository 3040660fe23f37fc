/**
 * The rows that `inTransaction` locks: created over the pool, so that a rollback does not remove them, and deleted after a day without use.
 *
 * The caller already has one connection of the pool. So it does not wait for a pool that gives no other soon: all callers that have its
 * connections would wait for each other.
 */
import { systemClock } from '../../core/clock.js'
import { BackendError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
import { type Connection, connect, type MysqlPool, number, text } from './client.js'
import { withTimeout } from './connections.js'
import { configuredDatabase, qualifier } from './database.js'
import { findErrno, isLeft, isMissingTable, resending } from './failure.js'
import { creation, tableNames } from './schema.js'
import * as sql from './sql-transaction.js'
import { assertCommitted } from './uncommitted.js'

const clock = systemClock()

/** How long to wait for a spare connection of the pool, and how long not to ask again after there was none, in ms. */
const lockTimeout = { spare: 500, again: 10_000 }
/** How long all statements on that connection may take together, in ms. */
const answerTime = 5_000
/** How long an unused row is kept, and how often old rows are searched for, in ms. */
const rowRetention = { for: 86_400_000, look: 60_000 }
const maxKnown = 100_000

/** What is known about a pool. */
interface Known {
  /** Names whose rows exist, so that the pool is asked once per name. */
  readonly names: Set<string>
  /** The one its options name; undefined: not known, or not yet. */
  database: string | undefined
  usedUpUntil: number
  checkAt: number
}
const pools = new WeakMap<MysqlPool, Known>()

/** NOWAIT: 3572 in MySQL, 1205 in MariaDB. A wait that timed out is 1205 in both. */
export function isLocked(error: unknown): boolean {
  const errno = findErrno(error)
  return errno === 1205 || errno === 3572
}

/**
 * Creates the row of a name, unless it is known to exist, or the pool has no spare connection.
 * @returns the database of the pool, as far as it is known
 * @throws BackendError when the name is held by another strategy · what the client throws
 */
export async function ensureRow(
  pool: MysqlPool,
  prefix: string,
  name: string,
  create: boolean,
): Promise<string | undefined> {
  const known = pools.get(pool) ?? newPool(pool)
  pools.set(pool, known)
  await resending(() => ensureOnce(pool, known, prefix, name, create))
  return known.database
}

async function ensureOnce(
  pool: MysqlPool,
  known: Known,
  prefix: string,
  name: string,
  create: boolean,
): Promise<void> {
  const id = `${prefix} ${name}`
  if (known.names.has(id) || clock.now() < known.usedUpUntil) return
  const connection = await borrowSpare(pool, prefix)
  if (connection === undefined) {
    known.usedUpUntil = clock.now() + lockTimeout.again
    return
  }
  known.database ??= connection.database
  let answered = false
  try {
    await withTimeout(clock, answerTime, createOn(connection, prefix, name, create))
    if (known.names.size >= maxKnown) known.names.clear()
    known.names.add(id)
    answered = true
  } catch (error) {
    answered = !isLeft(error) && (findErrno(error) !== undefined || error instanceof BackendError)
    throw error
  } finally {
    if (!answered) connection.destroy()
    else if (clock.now() < known.checkAt) connection.release()
    else {
      known.checkAt = clock.now() + rowRetention.look
      // In the background: the caller has a transaction open.
      void forget(connection, prefix)
    }
  }
}

const newPool = (pool: MysqlPool): Known => ({
  names: new Set<string>(),
  // Before a connection can be borrowed: all may be in transactions.
  database: configuredDatabase(pool),
  usedUpUntil: 0,
  checkAt: 0,
})

/** After an error, the next try is a minute later. */
async function forget(connection: Connection, prefix: string): Promise<void> {
  try {
    await withTimeout(clock, answerTime, forgetOn(connection, prefix))
    connection.release()
  } catch {
    connection.destroy()
  }
}

/** The same connection, whose statements find the tables wherever it is. */
function inItsDatabase(connection: Connection, prefix: string): Connection {
  const { database, query } = connection
  if (database === undefined) return connection
  const qualify = qualifier(prefix, database)
  return { ...connection, query: (statement) => query(qualify(statement)) }
}

/** A connection that comes late goes back to the pool. */
async function borrowSpare(pool: MysqlPool, prefix: string): Promise<Connection | undefined> {
  const coming = connect(pool)
  let late = false
  let stop = () => {}
  const none = new Promise<undefined>((resolve) => {
    stop = clock.at(clock.now() + lockTimeout.spare, () => resolve(undefined))
  })
  const given = coming.then(
    (connection) => {
      if (!late) return inItsDatabase(connection, prefix)
      connection.release()
      return undefined
    },
    (error) => {
      if (error instanceof TypeError) throw error
      // The pool refuses to queue, or cannot connect: the transaction has a connection.
      return undefined
    },
  )
  try {
    const connection = await Promise.race([given, none])
    late = connection === undefined
    return connection
  } finally {
    stop()
  }
}

/** Looks for the row first, without locks: an INSERT would wait for the transaction that has the row locked. */
async function createOn(connection: Connection, prefix: string, name: string, create: boolean) {
  const tables = tableNames(prefix)
  // A transaction that the application has left open: its snapshot is old, and making a table, or a transaction of ours, would commit it.
  await connection.query('ROLLBACK AND NO CHAIN NO RELEASE')
  const look = () => connection.query(sql.findRow(tables.transactions, name))
  const { rows } = await look().catch(async (error) => {
    if (!isMissingTable(error) || !create) throw error
    for (const statement of creation(prefix)) await connection.query(statement)
    return look()
  })
  const other = await connection.query(sql.heldByLease(tables, name))
  if (other.rows.length > 0) {
    const strategy = text(other.rows[0]?.[0]) === 'g' ? 'session' : 'row'
    throw new BackendError(
      'mysql',
      `${quote(name)} is held by the strategy ${strategy}, which does not see locks in transactions: use one of them for a name`,
    )
  }
  if (rows.length > 0) return
  assertCommitted({ inTransaction: number((await connection.query(sql.autocommit)).rows[0]?.[0]) !== 1 })
  try {
    // Somebody may be creating the row in a transaction: this does not wait for it.
    await connection.query(sql.tryRow(tables.transactions, name))
  } catch (error) {
    if (isLocked(error)) return
    throw error
  }
  assertCommitted(await connection.query(sql.createRow(tables.transactions, name)))
}

async function forgetOn(connection: Connection, prefix: string): Promise<void> {
  const { transactions } = tableNames(prefix)
  const idle = (await connection.query(sql.idleRows(transactions, rowRetention.for))).rows.map(([name]) =>
    text(name),
  )
  for (const name of idle) {
    await connection.query('START TRANSACTION')
    try {
      const { rows } = await connection.query(sql.lockIdleRow(transactions, name, rowRetention.for))
      if (rows.length > 0) await connection.query(sql.dropRow(transactions, name))
    } finally {
      await connection.query('COMMIT AND NO CHAIN NO RELEASE')
    }
  }
}
