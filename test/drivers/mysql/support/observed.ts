// A pool that is watched: the statements that go over it, and what comes back. It is the pool that the client made.
import type { FieldPacket, Pool } from 'mysql2/promise'
import type { MysqlPool } from '../../../../src/drivers/mysql/index.js'

export interface Watch {
  /** A connection is asked for: before each statement. */
  readonly borrowed?: () => void
  /** A statement is about to be sent. */
  readonly sent?: (sql: string) => void
  /** Names of the columns of a result, in their order. */
  readonly columns?: (names: readonly string[]) => void
}

export function observed(pool: Pool, { borrowed, sent, columns }: Watch): MysqlPool {
  return {
    async getConnection() {
      borrowed?.()
      const connection = await pool.getConnection()
      return Object.assign(Object.create(connection), {
        connection: connection.connection,
        async query(options: { sql: string }) {
          sent?.(options.sql)
          const answer = await connection.query(options)
          const fields = answer[1] as readonly FieldPacket[] | undefined
          if (fields !== undefined) columns?.(fields.map(({ name }) => name))
          return answer
        },
      })
    },
  }
}
