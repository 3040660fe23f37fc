/** The stores of a storm: how to start them, connect to them, and read their deadlock counts. */
import type { DriverFactory } from 'holdfast'
import { mysql } from 'holdfast/mysql'
import { postgres } from 'holdfast/postgres'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { startMysql } from '../../test/support/servers/mysql.js'
import { startPostgres } from '../../test/support/servers/postgres.js'

export const stores = ['postgres', 'mariadb', 'mysql'] as const
export type StoreName = (typeof stores)[number]

export interface Storming extends AsyncDisposable {
  readonly port: number
  readonly version: string
  /** What the server counted since it started. */
  deadlocks(): Promise<number>
  total(): Promise<number>
}

/** What a process of the storm uses. */
export interface Client {
  readonly driver: DriverFactory
  /** Reads a number and writes it back one greater, in two statements: what a lock is for. */
  count(name: string): Promise<void>
  close(): Promise<void>
}

const levels = ['read committed', 'repeatable read', 'serializable', 'read uncommitted']
export const names: readonly string[] = ['till', 'stock', 'mail']

export async function startStore(name: StoreName): Promise<Storming> {
  return name === 'postgres' ? startOnPostgres() : startOnMysql(name)
}

async function startOnPostgres(): Promise<Storming> {
  const server = await startPostgres()
  await server.sql('create table tally (name text primary key, n int not null)')
  for (const name of names) await server.sql('insert into tally values ($1, 0)', [name])
  const one = async (text: string) => Object.values((await server.sql(text))[0] ?? {})[0]
  return {
    port: server.port,
    version: `PostgreSQL ${await one('show server_version')}`,
    deadlocks: async () => Number(await one('select sum(deadlocks) from pg_stat_database')),
    total: async () => Number(await one('select sum(n) from tally')),
    [Symbol.asyncDispose]: () => server.stop(),
  }
}

async function startOnMysql(flavour: 'mariadb' | 'mysql'): Promise<Storming> {
  const server = await startMysql({ flavour })
  await server.query('create table tally (name varchar(20) primary key, n int not null)')
  for (const name of names) await server.query(`insert into tally values ('${name}', 0)`)
  const one = async (text: string) => Object.values((await server.query(text))[0] ?? {})[0]
  const deadlocks = `select count from information_schema.innodb_metrics where name = 'lock_deadlocks'`
  await server.query(`set global innodb_monitor_enable = 'lock_deadlocks'`)
  return {
    port: server.port,
    version: `${flavour === 'mysql' ? 'MySQL' : 'MariaDB'} ${String(await one('select version()')).split('-')[0]}`,
    deadlocks: async () => Number(await one(deadlocks)),
    total: async () => Number(await one('select sum(n) from tally')),
    [Symbol.asyncDispose]: () => server.stop(),
  }
}

/** Each process has a different default isolation level. */
export function openClient(name: StoreName, port: number, n: number): Client {
  const level = levels[n % levels.length] ?? ''
  return name === 'postgres' ? onPostgres(port, level) : onMysql(port, level)
}

/** Nobody crashes in a storm, so slow operations on a busy machine are waited for, in ms. */
const timeout = 20_000

function onPostgres(port: number, level: string): Client {
  const place = { host: '127.0.0.1', port, user: 'postgres', database: 'postgres' }
  const options = `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`
  const pool = new Pool({ ...place, max: 2, options })
  const work = new Pool({ ...place, max: 2 })
  return {
    driver: postgres({ pool, commandTimeout: timeout }),
    async count(name) {
      const { rows } = await work.query('select n from tally where name = $1', [name])
      await work.query('update tally set n = $1 where name = $2', [Number(rows[0].n) + 1, name])
    },
    close: async () => {
      await pool.end()
      await work.end()
    },
  }
}

function onMysql(port: number, level: string): Client {
  const place = { host: '127.0.0.1', port, user: 'root', database: 'holdfast' }
  const pool = createPool({ ...place, connectionLimit: 4 })
  pool.pool.on('connection', (connection) =>
    connection.query(`set session transaction isolation level ${level}`),
  )
  const work = createPool({ ...place, connectionLimit: 2 })
  return {
    driver: mysql({ pool, commandTimeout: timeout }),
    async count(name) {
      const [rows] = await work.query('select n from tally where name = ?', [name])
      const [row] = rows as { n: number }[]
      await work.query('update tally set n = ? where name = ?', [Number(row?.n) + 1, name])
    },
    close: async () => {
      await pool.end()
      await work.end()
    },
  }
}
