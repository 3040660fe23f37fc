/**
 * The clients of SQL stores as the guards need them: one statement in, rows and a count out. Types only: ready-made
 * pools, connections and transactions of pg, postgres.js, mysql2 and mariadb fit; this file imports no client.
 *
 * Values always reach the server apart from the statement's text. So the guards call `execute` on MySQL clients:
 * their `query` writes values into the text, and what it takes for escaped depends on the value's shape, the server's
 * modes and charsets.
 */
import { describe } from '../core/name.js'
import { type Plain, plain } from './sql-value.js'

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
  /**
   * @param values strings, finite numbers, bigints, booleans, null, Dates and Uint8Arrays; anything else is refused,
   * because it could become part of the statement
   * @throws TypeError, RangeError for such a value; what the client throws
   */
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
      const { rows, rowCount, affectedRows } = await client.query(text, bound(values))
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
      const answer = await sql.unsafe(text, bound(values).map(untyped) as never[])
      return { rows: [...answer] as SqlRow[], changed: answer.count ?? 0 }
    },
  }
}

/** A pool or connection of mysql2/promise. */
export interface Mysql2Client {
  /** For statements without values. */
  query(statement: Mysql2Statement, values: unknown[]): Promise<[unknown, unknown]>
  execute(statement: Mysql2Statement, values: never[]): Promise<[unknown, unknown]>
}

/** The form of rows that the guards read, whatever the options of the pool are. */
export interface Mysql2Statement {
  readonly sql: string
  readonly rowsAsArray: false
  readonly nestTables: false
}

export function mysql2(client: Mysql2Client): Sql {
  need(client, 'execute', 'mysql2(pool)')
  // Only clients with callbacks have it. They send a statement and then fail to report its end: the write would be made, and the process end.
  if (typeof (client as { readonly promise?: unknown }).promise === 'function')
    throw new TypeError(
      'mysql2(pool) takes a pool or connection of mysql2/promise, got one with callbacks; pass pool.promise()',
    )
  return {
    dialect: 'mysql',
    async run(text, values) {
      const sent = bound(values).map(within)
      const statement = { sql: withTypes(text, sent), rowsAsArray: false, nestTables: false } as const
      const [answer] = await (sent.length === 0
        ? client.query(statement, [])
        : client.execute(statement, sent as never[]))
      return fromMysql(answer)
    },
  }
}

/** A pool or connection of the mariadb connector. */
export interface MariadbClient {
  /** For statements without values. */
  query(statement: MariadbStatement, values: unknown[]): Promise<unknown>
  execute(statement: MariadbStatement, values: unknown[]): Promise<unknown>
}

export interface MariadbStatement extends Mysql2Statement {
  readonly namedPlaceholders: false
}

export function mariadb(client: MariadbClient): Sql {
  need(client, 'execute', 'mariadb(pool)')
  // With callbacks it takes one more: it would send the statement and return nothing.
  if (client.execute.length > 2)
    throw new TypeError(
      "mariadb(pool) takes a pool or connection of 'mariadb', got one with callbacks, of 'mariadb/callback'",
    )
  return {
    dialect: 'mysql',
    async run(text, values) {
      const sent = bound(values).map(within)
      const statement = {
        sql: withTypes(text, sent),
        rowsAsArray: false,
        nestTables: false,
        namedPlaceholders: false,
      } as const
      return fromMysql(
        await (sent.length === 0 ? client.query(statement, []) : client.execute(statement, sent)),
      )
    },
  }
}

/** What a guard has asked for. @throws TypeError when the client has changed the form of its rows: nothing may pass for a token */
export function columnOf(row: SqlRow, column: string, table: string): unknown {
  if (typeof row === 'object' && row !== null && Object.hasOwn(row, column)) return row[column]
  throw new TypeError(
    `${table}: the client returned a row without the column ${column} that was selected; guards need rows as objects with columns named as in the statement (no transform, no rows as arrays)`,
  )
}

function bound(values: readonly unknown[]): Plain[] {
  if (!Array.isArray(values)) throw new TypeError(`run takes an array of values, got ${describe(values)}`)
  return values.map((value, at) => plain(value, `value ${at + 1}`))
}

/** postgres.js would send the server a bigint's type, where the column's is wanted. */
const untyped = (value: Plain) => (typeof value === 'bigint' ? String(value) : value)

/**
 * MySQL 8 keeps the types with which a prepared statement was first run, and converts later values to them: '00'
 * becomes 0. Clients prepare a text once, so the text includes the types.
 */
function withTypes(text: string, values: readonly Plain[]): string {
  if (values.length === 0) return text
  return `${text.trimEnd().replace(/;$/, '')}\n/* ${values.map(sqlType).join(' ')} */`
}

function sqlType(value: Plain): string {
  if (value === null) return 'null'
  if (typeof value === 'number') return value === (value | 0) ? 'int' : 'double'
  if (typeof value !== 'object') return typeof value
  return value instanceof Date ? 'date' : 'bytes'
}

/** A bigint of more than 64 bits is sent as text. */
function within(value: Plain): Plain {
  return typeof value === 'bigint' && BigInt.asIntN(64, value) !== value ? String(value) : value
}

function fromMysql(answer: unknown): SqlAnswer {
  if (Array.isArray(answer)) return { rows: answer as SqlRow[], changed: 0 }
  return { rows: [], changed: Number((answer as { affectedRows?: number }).affectedRows ?? 0) }
}

function need(client: unknown, method: string, what: string): void {
  if (typeof (client as Record<string, unknown> | undefined)?.[method] !== 'function')
    throw new TypeError(`${what} takes a client with the method ${method}, got ${describe(client)}`)
}
