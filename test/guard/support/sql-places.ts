// Where the SQL guards are tested: each server with each of its clients, several connections deep.
import { createPool as createMariadbPool } from 'mariadb'
import { createPool as createMysql2Pool } from 'mysql2/promise'
import { Pool } from 'pg'
import postgresOver from 'postgres'
import { mariadb, mysql2, pg, postgresJs, type Sql } from '../../../src/guard/sql-client.js'
import { type Flavour, startMysql } from '../../support/servers/mysql.js'
import { startPostgres } from '../../support/servers/postgres.js'

export interface Place extends AsyncDisposable {
  readonly url: string
  readonly pool: Sql
  /** Runs `fn` in a transaction on a connection of its own, again when the server broke it to end a deadlock. */
  transaction<R>(fn: (db: Sql) => Promise<R>): Promise<R>
  run(text: string, ...values: unknown[]): Promise<readonly Record<string, unknown>[]>
}

type Connection = { sql: Sql; release(): void }

/** 1213: a deadlock, 1020: the row was changed since the snapshot (MariaDB), 40001 and 40P01: the same on PostgreSQL. */
const again = (error: { errno?: number; code?: string }) =>
  error.errno === 1213 || error.errno === 1020 || error.code === '40P01' || error.code === '40001'

function place(
  url: string,
  pool: Sql,
  connect: () => Promise<Connection>,
  close: () => Promise<unknown>,
): Place {
  return {
    url,
    pool,
    run: async (text, ...values) => (await pool.run(text, values)).rows,
    async transaction(fn) {
      for (;;) {
        const { sql, release } = await connect()
        try {
          await sql.run(sql.dialect === 'mysql' ? 'start transaction' : 'begin', [])
          const result = await fn(sql)
          await sql.run('commit', [])
          return result
        } catch (error) {
          await sql.run('rollback', [])
          if (!again(error as object)) throw error
        } finally {
          release()
        }
      }
    },
    async [Symbol.asyncDispose]() {
      await close()
    },
  }
}

async function overMysql2(flavour: Flavour, flags: string[]): Promise<Place> {
  const server = await startMysql({ flavour })
  const pool = createMysql2Pool({ uri: server.url, connectionLimit: 10, flags })
  const connect = async () => {
    const connection = await pool.getConnection()
    return { sql: mysql2(connection), release: () => connection.release() }
  }
  return place(server.url, mysql2(pool), connect, async () => {
    await pool.end()
    await server.stop()
  })
}

async function overMariadb(): Promise<Place> {
  const server = await startMysql({ flavour: 'mariadb' })
  const { hostname: host, port, username: user, pathname } = new URL(server.url)
  const pool = createMariadbPool({
    host,
    port: Number(port),
    user,
    database: pathname.slice(1),
    connectionLimit: 10,
  })
  const connect = async () => {
    const connection = await pool.getConnection()
    return { sql: mariadb(connection), release: () => void connection.release() }
  }
  return place(server.url, mariadb(pool), connect, async () => {
    await pool.end()
    await server.stop()
  })
}

async function overPg(): Promise<Place> {
  const server = await startPostgres()
  const pool = new Pool({ connectionString: server.url, max: 10 })
  const connect = async () => {
    const client = await pool.connect()
    return { sql: pg(client), release: () => client.release() }
  }
  return place(server.url, pg(pool), connect, async () => {
    await pool.end()
    await server.stop()
  })
}

async function overPostgresJs(): Promise<Place> {
  const server = await startPostgres()
  const sql = postgresOver(server.url, { max: 10, onnotice: () => undefined })
  const connect = async () => {
    const reserved = await sql.reserve()
    return { sql: postgresJs(reserved), release: () => reserved.release() }
  }
  return place(server.url, postgresJs(sql), connect, async () => {
    await sql.end()
    await server.stop()
  })
}

export const places: Readonly<Record<string, () => Promise<Place>>> = {
  'MySQL with mysql2': () => overMysql2('mysql', []),
  'MySQL with mysql2 that counts changed rows': () => overMysql2('mysql', ['-FOUND_ROWS']),
  'MariaDB with mariadb': overMariadb,
  'PostgreSQL with pg': overPg,
  'PostgreSQL with postgres.js': overPostgresJs,
}
