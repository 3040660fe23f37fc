/** The strategy `transaction`: a lock that is part of a transaction of the user's own, and ends with it. */

import { systemClock } from '../../core/clock.js'
import { AcquireTimeoutError, DeadlockError } from '../../core/errors.js'
import { checkName, describe } from '../../core/name.js'
import { type Answer, checkPool, connect, type MysqlPool, number, queryOn } from './client.js'
import { assertCommitting } from './desk.js'
import { inTime } from './link.js'
import { prefixOf } from './options.js'
import { creation, tablesOf } from './schema.js'
import * as sql from './sql.js'
import { errnoOf, isMissingTable, troubleOf } from './trouble.js'

const clock = systemClock()

/** A connection of mysql2 (promise flavour) or mariadb on which a transaction was begun. */
export interface MysqlTransaction {
  query(options: { readonly sql: string; readonly rowsAsArray: boolean }): Promise<unknown>
}

export interface TransactionOptions {
  /**
   * Over it the row of a name is made, outside of your transaction, when the name is used for the first time: a row that is not
   * committed would keep everybody else out of the table's index, and one that is not there cannot be locked.
   */
  readonly pool: MysqlPool
  /** How long to wait, in ms; the server counts whole seconds. Default 30_000. The connection can do nothing else meanwhile. */
  readonly wait?: number
  /** As given to `mysql()`. Default `holdfast_`. */
  readonly prefix?: string
  /** Create what is missing at the first use? Default true; `false`: only what `migration()` printed is used. */
  readonly create?: boolean
}

/** A lock until the transaction commits or rolls back. There is nothing to release, renew or lose: if the connection ends, so do both. */
export interface TransactionLock {
  readonly name: string
  /** The fence, greater than that of every earlier grant of this name that was committed. */
  readonly token: number
}

/**
 * Takes `name` for the rest of the transaction that is open on `connection`: `SELECT … FOR UPDATE` of a row of its own, found by its
 * primary key. Commit and rollback release it, after what was written has become visible, so nobody can read between the two.
 *
 * Take it first and read afterwards: at REPEATABLE READ, the server's default, a transaction reads what was committed at its first
 * read, which must not be older than the lock. It pins the connection while it waits and holds: keep the section short.
 * @throws AcquireTimeoutError when it was not free within `wait`; the transaction can go on · DeadlockError when the server chose this
 *   transaction to end a deadlock and rolled it back · TypeError when no transaction is open or `connection` is a pool ·
 *   BackendError when the server refuses
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

/** The same without waiting: `undefined` when it is not free. */
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
  const { transactions } = tablesOf(prefixOf(prefix))
  const ask = (statement: string) => queryOn(connection, statement)
  try {
    await assertOpen(ask)
    for (let tries = 0; tries < 3; tries++) {
      if (tries > 0 || !isKnown(pool, prefix, name)) await makeRow(pool, prefix, name, create)
      const found = await lockRow(ask, transactions, name, wait)
      if (found === 'busy') return undefined
      if (found === 'missing') continue
      const { id } = await ask(sql.mint(transactions, name))
      return { name, token: id }
    }
  } catch (error) {
    if (error instanceof TypeError) throw error
    if (errnoOf(error) === 1213) {
      throw new DeadlockError(
        name,
        'the server rolled this transaction back to end a deadlock; begin it again',
      )
    }
    throw troubleOf(error).error
  }
  throw troubleOf(new Error(`the row of ${name} is deleted as often as it is made`)).error
}

type Ask = (statement: string) => Promise<Answer>

/** A savepoint set outside a transaction is gone at once: then releasing it fails, and nothing has happened. */
async function assertOpen(ask: Ask): Promise<void> {
  await ask('SAVEPOINT holdfast')
  try {
    await ask('RELEASE SAVEPOINT holdfast')
  } catch (error) {
    if (errnoOf(error) !== 1305) throw error
    throw notOpen('call beginTransaction() on this connection first')
  }
}

async function lockRow(
  ask: Ask,
  table: string,
  name: string,
  wait: number,
): Promise<'locked' | 'busy' | 'missing'> {
  const before =
    wait === 0 ? undefined : number((await ask('SELECT @@innodb_lock_wait_timeout')).rows[0]?.[0])
  try {
    if (wait > 0) await ask(`SET SESSION innodb_lock_wait_timeout = ${Math.max(1, Math.ceil(wait / 1000))}`)
    const { rows } = await ask(sql.lockRow(table, name, wait > 0))
    return rows.length === 0 ? 'missing' : 'locked'
  } catch (error) {
    // NOWAIT: 3572 in MySQL, 1205 in MariaDB. A wait that ran out is 1205 in both.
    const errno = errnoOf(error)
    if (errno === 1205 || errno === 3572) return 'busy'
    throw error
  } finally {
    if (before !== undefined)
      await ask(`SET SESSION innodb_lock_wait_timeout = ${before}`).catch(() => undefined)
  }
}

/** Names whose rows are known to be there, so that the pool is asked once for each. */
const known = new WeakMap<MysqlPool, Set<string>>()
const mostKnown = 100_000

function isKnown(pool: MysqlPool, prefix: string, name: string): boolean {
  return known.get(pool)?.has(`${prefix} ${name}`) ?? false
}

/** Looked for first, without locks: an INSERT would wait for whoever has the row locked. */
async function makeRow(pool: MysqlPool, prefix: string, name: string, create: boolean): Promise<void> {
  const { transactions } = tablesOf(prefix)
  const coming = connect(pool)
  const connection = await inTime(clock, 5_000, coming).catch((error) => {
    coming.then(
      (late) => late.release(),
      () => undefined,
    )
    throw error
  })
  try {
    const look = () => connection.query(sql.findRow(transactions, name))
    const { rows } = await look().catch(async (error) => {
      if (!isMissingTable(error) || !create) throw error
      for (const statement of creation(prefix)) await connection.query(statement)
      return look()
    })
    if (rows.length === 0) {
      assertCommitting(await connection.query('SELECT @@autocommit'))
      await connection.query(sql.makeRow(transactions, name))
    }
  } finally {
    connection.release()
  }
  const names = known.get(pool) ?? new Set()
  if (names.size >= mostKnown) names.clear()
  known.set(pool, names.add(`${prefix} ${name}`))
}

function checkConnection(connection: MysqlTransaction): void {
  if (typeof connection !== 'object' || connection === null || typeof connection.query !== 'function') {
    throw new TypeError(`connection must be a connection of mysql2 or mariadb, got ${describe(connection)}`)
  }
  if ('getConnection' in connection) {
    throw notOpen('a pool runs each statement on any connection: take one with pool.getConnection()')
  }
}

function notOpen(remedy: string): TypeError {
  return new TypeError(
    `inTransaction needs an open transaction, else the lock would be released as soon as it is taken; ${remedy}`,
  )
}
