/**
 * Locks in PostgreSQL: a row with a lease, acquired and released in one statement each. A release hands the lock to the next
 * waiter in the same statement and notifies the waiter's process.
 *
 * ```ts
 * import { Pool } from 'pg'
 * import { createLocks } from 'holdfast'
 * import { postgres } from 'holdfast/postgres'
 *
 * const locks = createLocks(postgres({ pool: new Pool() }))
 * await locks.mutex('account:42').run(async (lease) => console.log(lease.token))
 * ```
 * @module
 */
export type { PgPool, PostgresJs, PostgresJsQuery, PostgresPool } from './client.js'
export { type PostgresSessionTraits, type PostgresTraits, postgres } from './driver.js'
export {
  inTransaction,
  type PgTransaction,
  type PostgresJsTransaction,
  type TransactionLock,
  type TransactionOptions,
  tryInTransaction,
} from './in-transaction.js'
export type { PostgresOptions } from './options.js'
export { migration } from './sql.js'
