/** Real pools fit the shape the MySQL driver asks for, without a cast. Checked by tsc, not run. */
import { createLocks } from 'holdfast'
import { type MysqlPool, mysql } from 'holdfast/mysql'
import { createPool as createMariadb } from 'mariadb'
import { createPool as createPlain } from 'mysql2'
import { createPool } from 'mysql2/promise'

export function whatCompiles(): readonly MysqlPool[] {
  createLocks(mysql({ pool: createPool({}) })).readWrite('x')
  createLocks(mysql({ pool: createPool({}), wakeWithGetLock: true })).semaphore('x', { permits: 3 })
  return [createPool({}), createPlain({}).promise(), createMariadb({})]
}

export function whatDoesNot(): void {
  // @ts-expect-error a URL is no pool
  mysql({ pool: 'mysql://localhost' })
  // @ts-expect-error it needs a pool
  mysql({})
}
