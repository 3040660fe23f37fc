/** The mysql driver over a pool of mysql2 or mariadb, for workers and for the final inspection. */
import {
  inTransaction,
  type MysqlOptions,
  type MysqlPool,
  type MysqlTransaction,
  mysql,
} from 'holdfast/mysql'
import { createPool as createMariadb } from 'mariadb'
import { createPool as createMysql2 } from 'mysql2/promise'
import type { Client, InTransaction } from './store.js'
import { within } from './transactions.js'

export interface MysqlPlace {
  readonly port: number
  readonly library: 'mysql2' | 'mariadb'
  readonly options?: Partial<MysqlOptions>
  /** Pool size in connections. @default 6 */
  readonly size?: number
}

/** The user of all workers: without the right to connect when the server is full, or to write when it is read-only. */
export const user = 'lab'

interface BorrowedConnection {
  release(): unknown
}

interface BorrowedTransaction extends BorrowedConnection, MysqlTransaction {
  beginTransaction(): Promise<unknown>
  commit(): Promise<unknown>
  destroy(): void
}

export function openMysql({ port, library, options, size = 6 }: MysqlPlace): Client {
  const pool = createPool(library, port, size)
  const strained = new Set<() => void>()
  return {
    driver: mysql({ pool, create: false, ...options }),
    strain(ms) {
      const taken: BorrowedConnection[] = []
      const back = () => {
        strained.delete(back)
        clearTimeout(timer)
        // A connection that arrives later goes back at once.
        for (const connection of taken.splice(0)) give(connection)
      }
      const timer = setTimeout(back, ms)
      strained.add(back)
      for (let i = 0; i < size; i++) {
        ;(pool.getConnection() as Promise<BorrowedConnection>).then(
          (connection) => (strained.has(back) ? void taken.push(connection) : give(connection)),
          () => undefined,
        )
      }
    },
    // Over a pool of one, the leases would wait for the transactions.
    ...(size > 1 && { transaction: (name: string, wait: number) => begin(pool, name, wait) }),
    transactionsApart: true,
    close: async () => {
      for (const back of strained) back()
      await pool.end().catch(() => undefined)
    },
  }
}

/** The server counts a wait in whole seconds. */
async function begin(pool: MysqlPool, name: string, wait: number): Promise<InTransaction | undefined> {
  const coming = pool.getConnection() as Promise<BorrowedTransaction>
  const connection = await within(coming).catch((error: unknown) => {
    coming.then(give, () => undefined)
    throw error
  })
  try {
    await within(connection.beginTransaction())
    const options = { pool, wait, create: false }
    const { token } = await within(inTransaction(connection, name, options), wait + 6_000)
    const commit = async () => {
      try {
        await within(connection.commit())
        give(connection)
      } catch (error) {
        connection.destroy()
        throw error
      }
    }
    return { token, commit }
  } catch (error) {
    connection.destroy()
    if ((error as { code?: unknown }).code === 'ACQUIRE_TIMEOUT') return undefined
    throw error
  }
}

/** mariadb reports through a rejected promise that the connection has died meanwhile. */
function give(connection: BorrowedConnection): void {
  void Promise.resolve(connection.release()).catch(() => undefined)
}

function createPool(
  library: MysqlPlace['library'],
  port: number,
  size: number,
): MysqlPool & { end(): Promise<void> } {
  const place = { host: '127.0.0.1', port, user, database: 'holdfast', connectionLimit: size }
  if (library === 'mysql2') return createMysql2({ ...place, connectTimeout: 1_000 })
  return createMariadb({
    ...{ ...place, connectTimeout: 1_000, acquireTimeout: 2_000 },
    ...{ allowPublicKeyRetrieval: true, initializationTimeout: 1_000 },
  })
}
