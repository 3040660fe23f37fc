// Every client that the SQL guards take, in its oldest, its most used and its newest version, and with the options that change how
// values reach the server: one connection each.
import { createConnection as mariadbNewest } from 'mariadb'
import { createConnection as mariadb30 } from 'mariadb-3.0'
import { createConnection as mariadb34 } from 'mariadb-3.4'
import { createConnection as mysql2Newest } from 'mysql2/promise'
import { createConnection as mysql230 } from 'mysql2-3.0/promise'
import { createConnection as mysql2314 } from 'mysql2-3.14/promise'
import { Client as PgNewest } from 'pg'
// @ts-expect-error: this version has no types
import Pg80 from 'pg-8.0'
import postgresNewest from 'postgres'
// @ts-expect-error: this version's types cannot be found
import postgres30 from 'postgres-3.0'
import postgres345 from 'postgres-3.4.5'
import {
  type MariadbClient,
  type Mysql2Client,
  mariadb,
  mysql2,
  type PgClient,
  type PostgresJsClient,
  pg,
  postgresJs,
  type Sql,
} from '../../../src/guard/sql-client.js'

export interface Client {
  readonly db: Sql
  close(): Promise<unknown>
}
export type Connect = (url: string) => Promise<Client>

const partsOf = (url: string) => {
  const { hostname: host, port, username: user, pathname } = new URL(url)
  return { host, port: Number(port), user, database: pathname.slice(1) }
}

type Mysql2 = (options: object) => Promise<Mysql2Client & { end(): Promise<unknown> }>
const overMysql2 =
  (create: unknown, options: object = {}, mode?: string): Connect =>
  async (url) => {
    const connection = await (create as Mysql2)({ ...partsOf(url), ...options })
    const db = mysql2(connection)
    if (mode !== undefined) await db.run(`set sql_mode = '${mode}'`, [])
    return { db, close: () => connection.end() }
  }

type Mariadb = (options: object) => Promise<MariadbClient & { end(): Promise<unknown> }>
const overMariadb =
  (create: unknown, options: object = {}, mode?: string): Connect =>
  async (url) => {
    const given = { ...partsOf(url), allowPublicKeyRetrieval: true, ...options }
    const connection = await (create as Mariadb)(given)
    const db = mariadb(connection)
    if (mode !== undefined) await db.run(`set sql_mode = '${mode}'`, [])
    return { db, close: () => connection.end() }
  }

type Pg = new (options: object) => PgClient & { connect(): Promise<unknown>; end(): Promise<unknown> }
const overPg =
  (PgClient: unknown): Connect =>
  async (url) => {
    const client = new (PgClient as Pg)({ connectionString: url })
    await client.connect()
    return { db: pg(client), close: () => client.end() }
  }

type PostgresJs = (url: string, options: object) => PostgresJsClient & { end(): Promise<unknown> }
const overPostgresJs =
  (create: unknown, options: object = {}): Connect =>
  async (url) => {
    const sql = (create as PostgresJs)(url, { max: 1, onnotice: () => undefined, ...options })
    return { db: postgresJs(sql), close: () => sql.end() }
  }

/** A backslash is a plain character, and text that is not a number still counts as one. */
const loose = 'NO_BACKSLASH_ESCAPES'
export const overMysql: Readonly<Record<string, Connect>> = {
  'mysql2 3.0.0': overMysql2(mysql230),
  'mysql2 3.0.0 without backslash escapes': overMysql2(mysql230, {}, loose),
  'mysql2 3.14 with named placeholders': overMysql2(mysql2314, { namedPlaceholders: true }),
  'mysql2 3.14 in GBK without backslash escapes': overMysql2(mysql2314, { charset: 'GBK_CHINESE_CI' }, loose),
  'mysql2, newest': overMysql2(mysql2Newest),
  'mysql2, newest, in Shift-JIS': overMysql2(mysql2Newest, { charset: 'CP932_JAPANESE_CI' }),
  'mariadb 3.0.0': overMariadb(mariadb30),
  'mariadb 3.4 with named placeholders': overMariadb(mariadb34, { namedPlaceholders: true }, loose),
  'mariadb, newest': overMariadb(mariadbNewest),
}

export const overPostgres: Readonly<Record<string, Connect>> = {
  'pg 8.0.3': overPg(Pg80.Client),
  'pg, newest': overPg(PgNewest),
  'postgres.js 3.0': overPostgresJs(postgres30),
  'postgres.js 3.4.5': overPostgresJs(postgres345),
  'postgres.js, newest, without prepared statements': overPostgresJs(postgresNewest, { prepare: false }),
}
