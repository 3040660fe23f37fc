/** The strategy `transaction`: a lock that is part of the user's own transaction and ends with it. */

import { systemClock } from '../../core/clock.js'
import { AcquireTimeoutError, BackendError, DeadlockError } from '../../core/errors.js'
import { checkName, describe } from '../../core/name.js'
import { type Answer, checkPool, type MysqlPool, number, queryOn } from './client.js'
import { qualifier } from './database.js'
import { findErrno, toFailure } from './failure.js'
import { parsePrefix } from './options.js'
import { tableNames } from './schema.js'
import * as sql from './sql-transaction.js'
import { ensureRow, isLocked } from './transaction-rows.js'

const clock = systemClock()

/** A connection of mysql2 (promise flavour) or mariadb with an open transaction. */
export interface MysqlTransaction {
  query(options: {
    readonly sql: string
    readonly rowsAsArray: boolean
    readonly nestTables: boolean
  }): Promise<unknown>
}

export interface TransactionOptions {
  /**
   * Used to create the row of a name, outside your transaction, when the name is first used. If the pool has no spare connection
   * within half a second, the row is created in your transaction instead. If that rolls back, one of several waiters for the name may
   * get a `DeadlockError`.
   */
  readonly pool: MysqlPool
  /** How long to wait, in ms; the server counts whole seconds. Default 30_000. The connection can do nothing else meanwhile. */
  readonly wait?: number
  /** As given to `mysql()`. Default `holdfast_`. */
  readonly prefix?: string
  /** Whether to create what is missing on first use. Default true. `false`: uses only what `migration()` printed. */
  readonly create?: boolean
}

/** A lock held until the transaction commits or rolls back. There is nothing to release, renew or lose: both end with the connection. */
export interface TransactionLock {
  readonly name: string
  /** The fencing token, greater than that of every earlier committed grant of this name. */
  readonly token: number
}

/**
 * Acquires `name` for the rest of the transaction open on `connection`, as the lock of a row of its own, found by its primary key. Commit
 * and rollback release the lock after the transaction's writes have become visible, so nobody can read between the two.
 *
 * Acquire the lock first and read afterwards: at REPEATABLE READ, the server's default, a transaction reads what was committed at its
 * first read, which must not be older than the lock. Waiting and holding occupy the connection: keep the section short.
 * @throws AcquireTimeoutError when the lock was not free within `wait`; the transaction can go on · DeadlockError when the server chose
 *   this transaction to end a deadlock and rolled it back · TypeError when no transaction is open or `connection` is a pool ·
 *   BackendError when the server refuses, or the name is held by the strategy `row` or `session`, which does not see this lock ·
 *   RangeError when `wait` is shorter than 1 ms or longer than 2 ** 30 s
 */
export async function inTransaction(
  connection: MysqlTransaction,
  name: string,
  options: TransactionOptions,
): Promise<TransactionLock> {
  const { wait = 30_000 } = options
  if (typeof wait !== 'number' || !(wait >= 1 && wait <= 2 ** 30 * 1000)) {
    throw new RangeError(
      `wait must be at least 1 ms, got ${describe(wait)}; to try once, call tryInTransaction()`,
    )
  }
  const begin = clock.now()
  const lock = await take(connection, name, options, wait)
  if (lock !== undefined) return lock
  throw new AcquireTimeoutError(name, clock.now() - begin, undefined)
}

/** Like `inTransaction`, without waiting: resolves with `undefined` when the lock is not free. */
export async function tryInTransaction(
  connection: MysqlTransaction,
  name: string,
  options: Omit<TransactionOptions, 'wait'>,
): Promise<TransactionLock | undefined> {
  return take(connection, name, options, 0)
}

async function take(
  connection: MysqlTransaction,
  name: string,
  { pool, prefix = 'holdfast_', create = true }: TransactionOptions,
  wait: number,
): Promise<TransactionLock | undefined> {
  checkName(name)
  checkPool(pool)
  checkConnection(connection)
  if (typeof create !== 'boolean')
    throw new TypeError(`create must be true or false, got ${describe(create)}`)
  const { transactions } = tableNames(parsePrefix(prefix))
  let qualify = (statement: string) => statement
  const ask = (statement: string) => queryOn(connection, qualify(statement))
  try {
    await assertOpen(ask)
    const database = await ensureRow(pool, prefix, name, create)
    if (database !== undefined) qualify = qualifier(prefix, database)
    if (!(await lockRow(ask, transactions, name, wait))) return undefined
    const { id } = await ask(sql.mint(transactions, name))
    return { name, token: id }
  } catch (error) {
    if (error instanceof TypeError || error instanceof BackendError) throw error
    if (findErrno(error) === 1213) {
      throw new DeadlockError(
        name,
        'the server rolled this transaction back to end a deadlock; begin it again',
      )
    }
    throw toFailure(error).error
  }
}

type Ask = (statement: string) => Promise<Answer>

/** Outside a transaction, a savepoint is gone at once: then releasing it fails, and nothing has happened. */
async function assertOpen(ask: Ask): Promise<void> {
  await ask('SAVEPOINT holdfast')
  try {
    await ask('RELEASE SAVEPOINT holdfast')
  } catch (error) {
    if (findErrno(error) !== 1305) throw error
    throw notOpen('call beginTransaction() on this connection first')
  }
}

/** False: the row is not free. */
async function lockRow(ask: Ask, table: string, name: string, wait: number): Promise<boolean> {
  try {
    if (wait === 0 && (await ask(sql.tryRow(table, name))).rows.length > 0) return true
    await lockOrMakeRow(ask, table, name, wait)
    return true
  } catch (error) {
    if (isLocked(error)) return false
    throw error
  }
}

/** Creates the row in the transaction itself if it must: a missing row cannot be locked, and a gap excludes nobody. */
async function lockOrMakeRow(ask: Ask, table: string, name: string, wait: number): Promise<void> {
  const before = number((await ask('SELECT @@innodb_lock_wait_timeout AS timeout LIMIT 1')).rows[0]?.[0])
  try {
    await ask(`SET SESSION innodb_lock_wait_timeout = ${Math.max(1, Math.ceil(wait / 1000))}`)
    await ask(sql.lockOrCreateRow(table, name))
  } finally {
    await ask(`SET SESSION innodb_lock_wait_timeout = ${before}`).catch(() => undefined)
  }
}

function checkConnection(connection: MysqlTransaction): void {
  if (typeof connection !== 'object' || connection === null || typeof connection.query !== 'function') {
    throw new TypeError(`connection must be a connection of mysql2 or mariadb, got ${describe(connection)}`)
  }
  // Those of clients with callbacks return no result, and the token would be 0. In mariadb the callback is one parameter more.
  if ('promise' in connection && typeof connection.promise === 'function')
    throw new TypeError('connection is a callback connection of mysql2; pass connection.promise()')
  if ('batch' in connection && connection.query.length > 2)
    throw new TypeError("connection is one of 'mariadb/callback'; pass one of 'mariadb'")
  if ('getConnection' in connection) {
    throw notOpen('a pool runs each statement on any connection: take one with pool.getConnection()')
  }
}

function notOpen(remedy: string): TypeError {
  return new TypeError(
    `inTransaction needs an open transaction, else the lock would be released as soon as it is taken; ${remedy}`,
  )
}
