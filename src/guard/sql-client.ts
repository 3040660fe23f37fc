/**
 * The clients of SQL stores as the guards need them: one statement in, rows and a count out. Types only: ready-made pools,
 * connections and transactions of pg, postgres.js, mysql2 and mariadb fit; no client is imported.
 */
import { describe } from '../core/name.js'

export type Dialect = 'postgres' | 'mysql'
export type SqlRow = Readonly<Record<string, unknown>>

export interface SqlAnswer {
  readonly rows: readonly SqlRow[]
  /** Rows inserted, matched or deleted. MySQL clients may leave out rows that an update did not change: nothing here relies on it. */
  readonly changed: number
}

/** One connection, pool or transaction. */
export interface Sql {
  readonly dialect: Dialect
  run(text: string, values: readonly unknown[]): Promise<SqlAnswer>
}

/** `Pool`, `Client`, `PoolClient` of pg; PGlite. */
export interface PgClient {
  query(
    text: string,
    values: unknown[],
  ): Promise<{ rows: unknown[]; rowCount?: number | null; affectedRows?: number }>
}

export function pg(client: PgClient): Sql {
  need(client, 'query', 'pg(pool)')
  return {
    dialect: 'postgres',
    async run(text, values) {
      const { rows, rowCount, affectedRows } = await client.query(text, [...values])
      return { rows: rows as SqlRow[], changed: rowCount ?? affectedRows ?? 0 }
    },
  }
}

/** The `sql` of postgres.js, or that of its `begin`. */
export interface PostgresJsClient {
  unsafe(text: string, values: never[]): PromiseLike<readonly unknown[] & { readonly count: number | null }>
}

export function postgresJs(sql: PostgresJsClient): Sql {
  need(sql, 'unsafe', 'postgresJs(sql)')
  return {
    dialect: 'postgres',
    async run(text, values) {
      const answer = await sql.unsafe(text, [...values] as never[])
      return { rows: [...answer] as SqlRow[], changed: answer.count ?? 0 }
    },
  }
}

/** A pool or connection of mysql2/promise. */
export interface Mysql2Client {
  query(text: string, values: unknown[]): Promise<[unknown, unknown]>
}

export function mysql2(client: Mysql2Client): Sql {
  need(client, 'query', 'mysql2(pool)')
  return {
    dialect: 'mysql',
    async run(text, values) {
      const [answer] = await client.query(text, [...values])
      return fromMysql(answer)
    },
  }
}

/** A pool or connection of the mariadb connector. */
export interface MariadbClient {
  query(text: string, values: unknown[]): Promise<unknown>
}

export function mariadb(client: MariadbClient): Sql {
  need(client, 'query', 'mariadb(pool)')
  return {
    dialect: 'mysql',
    run: async (text, values) => fromMysql(await client.query(text, [...values])),
  }
}

function fromMysql(answer: unknown): SqlAnswer {
  if (Array.isArray(answer)) return { rows: answer as SqlRow[], changed: 0 }
  return { rows: [], changed: Number((answer as { affectedRows?: number }).affectedRows ?? 0) }
}

function need(client: unknown, method: string, what: string): void {
  if (typeof (client as Record<string, unknown> | undefined)?.[method] !== 'function')
    throw new TypeError(`${what} takes a client with the method ${method}, got ${describe(client)}`)
}
