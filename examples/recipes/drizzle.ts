/** Drizzle: the condition on the fence is one more `lte`. The client determines where the row count is: see `changed`. */
import { and, eq, isNull, lte, or } from 'drizzle-orm'
import * as mysql from 'drizzle-orm/mysql-core'
import type { MySql2Database } from 'drizzle-orm/mysql2'
import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import * as pg from 'drizzle-orm/pg-core'
import { assertFresh, type Fence } from 'holdfast/guard'

const mysqlInvoices = mysql.mysqlTable('invoices', {
  id: mysql.varchar('id', { length: 60 }).primaryKey(),
  total: mysql.varchar('total', { length: 60 }),
  fence: mysql.bigint('fence', { mode: 'number' }),
})

const pgInvoices = pg.pgTable('invoices', {
  id: pg.varchar('id', { length: 60 }).primaryKey(),
  total: pg.varchar('total', { length: 60 }),
  fence: pg.bigint('fence', { mode: 'number' }),
})

/** mysql2. @throws StaleTokenError */
export async function saveInMysql(
  db: MySql2Database,
  id: string,
  total: string,
  lease: Fence,
): Promise<void> {
  lease.assertHeld?.()
  const [result] = await db
    .update(mysqlInvoices)
    .set({ total, fence: lease.token })
    .where(
      and(eq(mysqlInvoices.id, id), or(isNull(mysqlInvoices.fence), lte(mysqlInvoices.fence, lease.token))),
    )
  assertFresh(result.affectedRows, lease)
}

/** pg. @throws StaleTokenError */
export async function saveInPostgres(
  db: NodePgDatabase,
  id: string,
  total: string,
  lease: Fence,
): Promise<void> {
  lease.assertHeld?.()
  const result = await db
    .update(pgInvoices)
    .set({ total, fence: lease.token })
    .where(and(eq(pgInvoices.id, id), or(isNull(pgInvoices.fence), lte(pgInvoices.fence, lease.token))))
  assertFresh(result.rowCount, lease)
}
