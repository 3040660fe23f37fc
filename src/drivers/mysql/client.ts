/**
 * What the driver needs from a MySQL client, and what the clients look like. Types only: no client is imported; pools of mysql2 (its
 * promise flavour) and of mariadb fit as they are. No other file knows which client it is.
 *
 * The driver sends statements as plain text with every value written into them (`sql.ts`), so that no client setting and no
 * `sql_mode` can change how a value is quoted.
 */
import { describe } from '../../core/name.js'
import { borrow, type Socket } from './borrow.js'
import { configuredDatabase } from './database.js'
import { assertReadable, unreadable } from './readable.js'

/** Rows as plain arrays, whatever the options of the pool say. */
interface QueryOptions {
  readonly sql: string
  readonly rowsAsArray: boolean
  readonly nestTables: boolean
  readonly typeCast: (column: unknown, next: () => unknown) => unknown
}

/** A connection from the pool of either client. */
export interface MysqlConnection {
  query(options: QueryOptions): Promise<unknown>
  /** Returns it to the pool. */
  release(): unknown
  /** Closes it at once; the pool opens another one. */
  destroy(): void
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
}

/** A pool of mysql2 (`mysql2/promise`, or `.promise()` of a plain pool) or of mariadb. */
export interface MysqlPool {
  getConnection(): Promise<unknown>
}

export type Value = string | number | bigint | Uint8Array | null | undefined

/** The result of one statement. */
export interface Answer {
  readonly rows: readonly (readonly Value[])[]
  /** What the statement put into `LAST_INSERT_ID()`; 0: it changed nothing. */
  readonly id: number
  /** How many rows it changed. Rows that matched and stayed the same may count or not: only useful if every matching row is changed. */
  readonly changed: number
  /** True if the connection was inside a transaction afterwards. Undefined: this client does not report it. */
  readonly inTransaction: boolean | undefined
}

export interface Connection {
  /** The same object however often the pool hands out the connection. */
  readonly identity: object
  /** The one that the options of the pool name, if known; the connection may be in another. */
  readonly database: string | undefined
  query(sql: string): Promise<Answer>
  release(): void
  destroy(): void
  /** Reports, once, that the connection has ended. Returns a function that stops this. */
  watch(ended: (error: unknown) => void): () => void
}

/** @throws TypeError when `pool` is not a pool of either client */
export function checkPool(pool: unknown): MysqlPool {
  if (typeof pool === 'object' && pool !== null) {
    if (isCluster(pool)) {
      throw new TypeError(
        'mysql: pool is a cluster of pools or a namespace of one, which can send each statement to another server; pass a pool of the one server that keeps the locks',
      )
    }
    if ('promise' in pool && typeof pool.promise === 'function') {
      throw new TypeError(
        'mysql: pool is a callback pool of mysql2; pass pool.promise(), or one made by mysql2/promise',
      )
    }
    if ('getConnection' in pool && typeof pool.getConnection === 'function') {
      // Only clients of mariadb have `batch`. With callbacks, the method takes one.
      if ('batch' in pool && pool.getConnection.length > 0)
        throw new TypeError("mysql: pool is a pool of 'mariadb/callback'; pass one of 'mariadb'")
      return pool as MysqlPool
    }
  }
  throw new TypeError(
    `mysql: pool must be a pool made by createPool of mysql2/promise or mariadb, got ${describe(pool)}`,
  )
}

/** Of either client. The namespaces of mysql2 show their cluster; those of mariadb, alone among its objects with `batch`, cannot be ended. */
const isCluster = (pool: object) =>
  ('of' in pool && typeof pool.of === 'function') ||
  'poolNamespace' in pool ||
  '_cluster' in pool ||
  ('batch' in pool && !('end' in pool))

/** @throws what the pool throws; TypeError for a pool that gives no promise of a connection */
export async function connect(pool: MysqlPool): Promise<Connection> {
  const { given, socket, bare } = await borrow(pool)
  const connection = given as MysqlConnection | undefined
  if (typeof connection?.query !== 'function') {
    throw new TypeError(
      'the pool gave no connection; use the promise flavours of the clients, not the callback ones',
    )
  }
  return wrap(connection, socket, bare, configuredDatabase(pool, given, bare))
}

/** Runs one statement on a connection that is somebody else's. @throws what the client throws; UnreadableAnswerError */
export async function queryOn(connection: Pick<MysqlConnection, 'query'>, sql: string): Promise<Answer> {
  // Only mariadb connections have `batch`.
  const mariadb = 'batch' in connection
  const typeCast = (_column: unknown, next: () => unknown) => next()
  const form = { rowsAsArray: true, nestTables: false, typeCast }
  let result: unknown
  try {
    result = await connection.query({ sql, ...form })
  } catch (error) {
    throw unreadable(error)
  }
  const answer = toAnswer(result, mariadb)
  assertReadable(answer.rows)
  // It reports the state beside the reply, not in a row.
  const { status } = (connection as { readonly info?: { readonly status?: unknown } }).info ?? {}
  return mariadb && typeof status === 'number' ? { ...answer, inTransaction: (status & 1) === 1 } : answer
}

/** @param bare the object that the client wraps anew each time its pool hands it out */
export function wrap(
  connection: MysqlConnection,
  socket?: Socket,
  bare: object = connection,
  database?: string,
): Connection {
  return {
    identity: bare,
    database,
    query: (sql) => queryOn(connection, sql),
    // mariadb releases in the background and returns a promise that rejects when the connection has died.
    release: () => void Promise.resolve(connection.release()).catch(() => undefined),
    destroy() {
      if (socket === undefined) return connection.destroy()
      // By then the client has noticed the end, and nothing is unanswered any more.
      const drop = () => setImmediate(() => connection.destroy())
      if (socket.destroyed) return void drop()
      socket.once('close', drop)
      socket.destroy(new Error('closed by holdfast: a statement was not answered in time'))
    },
    watch(ended) {
      const events = ['error', 'end', 'close']
      const stop = () => {
        for (const event of events) connection.off(event, once)
      }
      const once = (error: unknown) => {
        stop()
        ended(error)
      }
      for (const event of events) connection.on(event, once)
      // An error without a listener would end the process, even one that comes after the end.
      connection.on('error', () => undefined)
      return stop
    },
  }
}

/**
 * Rows, or a header with `insertId`. mysql2 puts them before the fields, and so does mariadb with `metaAsArray`; without it, mariadb
 * attaches `meta` to the list of rows. The content of the rows proves nothing: two rows can look like rows and fields.
 */
function toAnswer(result: unknown, mariadb: boolean): Answer {
  const bare = mariadb && !(Array.isArray(result) && !('meta' in result))
  const first = bare ? result : (result as readonly unknown[])[0]
  if (Array.isArray(first)) return { rows: first, id: 0, changed: 0, inTransaction: undefined }
  const { insertId, affectedRows, serverStatus } = (first ?? {}) as Readonly<Record<string, unknown>>
  return {
    rows: [],
    id: Number(String(insertId ?? 0)),
    changed: Number(affectedRows ?? 0),
    inTransaction: typeof serverStatus === 'number' ? (serverStatus & 1) === 1 : undefined,
  }
}

export function text(value: Value): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? Buffer.from(value).toString('utf8') : String(value)
}

export function number(value: Value): number {
  return value === null || value === undefined ? 0 : Number(text(value))
}
