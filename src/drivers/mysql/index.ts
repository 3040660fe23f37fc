/**
 * Locks in MariaDB or MySQL: one statement acquires a free lock, one releases it; no connection is kept; first come, first served.
 *
 * ```ts
 * import { createPool } from 'mysql2/promise'
 * import { createLocks } from 'holdfast'
 * import { mysql } from 'holdfast/mysql'
 *
 * const locks = createLocks(mysql({ pool: createPool('mysql://app@localhost/shop') }))
 * await locks.mutex('account:42').run(async (lease) => console.log(lease.token))
 * ```
 * @module
 */
export type { MysqlPool } from './client.js'
export { type MysqlSessionTraits, type MysqlTraits, mysql } from './driver.js'
export {
  inTransaction,
  type MysqlTransaction,
  type TransactionLock,
  type TransactionOptions,
  tryInTransaction,
} from './in-transaction.js'
export type { MysqlOptions } from './options.js'
export { migration } from './schema.js'
