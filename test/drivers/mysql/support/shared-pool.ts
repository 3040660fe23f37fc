// Locks over a pool that the application uses, too, and whose connections it leaves with settings of its own.
import type { TestContext } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { type MysqlPool, mysql } from 'holdfast/mysql'

/** Connections of such a pool. */
export const size = 2

export interface SharedConnection {
  query(sql: string): Promise<unknown>
  release(): unknown
}

/** Locks and pool are closed after the test. */
export function locksOn(
  t: TestContext,
  pool: MysqlPool,
  strategy: 'row' | 'session',
  close: () => unknown,
): Locks {
  const locks = createLocks(mysql({ pool, strategy })) as unknown as Locks
  t.after(async () => {
    await locks.close()
    await close()
  })
  return locks
}

/** Every connection of the pool is left like this. */
export async function leave(pool: MysqlPool, statement: string): Promise<void> {
  const get = () => pool.getConnection() as Promise<SharedConnection>
  const all = await Promise.all(Array.from({ length: size }, get))
  for (const connection of all) {
    await connection.query(statement)
    await connection.release()
  }
}
