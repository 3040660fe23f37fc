/**
 * What the driver needs of a MySQL client, and what the clients look like. Types only: no client is imported; ready-made pools of
 * mysql2 (its promise flavour) and of mariadb fit as they are. Nothing else knows which it is.
 *
 * Statements are sent as plain text with every value written into them (`sql.ts`), so that no setting of the client, and no
 * `sql_mode`, can change how a value is quoted.
 */
import { describe } from '../../core/name.js'

interface QueryOptions {
  readonly sql: string
  readonly rowsAsArray: boolean
}

/** A connection out of the pool of either client. */
export interface MysqlConnection {
  query(options: QueryOptions): Promise<unknown>
  /** Back to the pool. */
  release(): unknown
  /** Closes it at once; the pool makes another one. */
  destroy(): void
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
}

/** A pool of mysql2 (`mysql2/promise`, or `.promise()` of a plain one) or of mariadb. */
export interface MysqlPool {
  getConnection(): Promise<unknown>
}

export type Value = string | number | bigint | Uint8Array | null | undefined

/** What one statement gave. */
export interface Answer {
  readonly rows: readonly (readonly Value[])[]
  /** What the statement put into `LAST_INSERT_ID()`; 0: it changed nothing. */
  readonly id: number
  /** How many rows it changed. What matched and stayed as it was may count, or not: only of use where every row that matches is changed. */
  readonly changed: number
  /** Was the connection inside a transaction afterwards? Undefined: this client does not say. */
  readonly inTransaction: boolean | undefined
}

export interface Connection {
  query(sql: string): Promise<Answer>
  release(): void
  destroy(): void
  /** Tells, once, that the connection has ended. Returns what stops it. */
  watch(ended: (error: unknown) => void): () => void
}

/** @throws TypeError when it is no pool of either client */
export function checkPool(pool: unknown): MysqlPool {
  if (typeof pool === 'object' && pool !== null) {
    if ('promise' in pool && typeof pool.promise === 'function') {
      throw new TypeError(
        'mysql: pool is a callback pool of mysql2; pass pool.promise(), or one made by mysql2/promise',
      )
    }
    if ('getConnection' in pool && typeof pool.getConnection === 'function') return pool as MysqlPool
  }
  throw new TypeError(
    `mysql: pool must be a pool made by createPool of mysql2/promise or mariadb, got ${describe(pool)}`,
  )
}

/** @throws whatever the pool throws; TypeError for a pool that gives no promise of a connection */
export async function connect(pool: MysqlPool): Promise<Connection> {
  const { given, socket } = await acquired(pool)
  const connection = given as MysqlConnection | undefined
  if (typeof connection?.query !== 'function') {
    throw new TypeError(
      'mysql: the pool gave no connection; use the promise flavours of the clients, not the callback ones',
    )
  }
  return wrap(connection, socket)
}

/** What is used of the socket under a connection of mariadb. */
interface Socket {
  readonly destroyed: boolean
  destroy(why: Error): unknown
  once(event: 'close', listener: () => void): unknown
}

/** What a pool of mariadb tells of with its event `acquire`. */
interface Acquired {
  readonly threadId?: unknown
  readonly socket?: Socket
}

/**
 * With a connection of mariadb, the socket under it: its `destroy()`, called while a statement is unanswered, opens another connection
 * and sends `KILL` with a number that may by then be somebody else's, and a refusal of that ends the process, because nobody can
 * catch it. Closing the socket needs no server.
 */
async function acquired(pool: MysqlPool): Promise<{ given: unknown; socket?: Socket | undefined }> {
  const events = pool as Partial<Pick<MysqlConnection, 'on' | 'off'>>
  // Pools of mysql2 close the socket themselves.
  if ('pool' in pool || typeof events.on !== 'function' || typeof events.off !== 'function') {
    return { given: await pool.getConnection() }
  }
  const sockets = new Map<unknown, Socket | undefined>()
  const note = (one: unknown) => {
    const { threadId, socket } = one as Acquired
    sockets.set(threadId, socket)
  }
  events.on('acquire', note)
  try {
    const given = await pool.getConnection()
    return { given, socket: sockets.get((given as Acquired | undefined)?.threadId) }
  } finally {
    events.off('acquire', note)
  }
}

/** One statement on a connection that is somebody else's. */
export async function queryOn(connection: Pick<MysqlConnection, 'query'>, sql: string): Promise<Answer> {
  return answerOf(await connection.query({ sql, rowsAsArray: true }))
}

export function wrap(connection: MysqlConnection, socket?: Socket): Connection {
  return {
    query: (sql) => queryOn(connection, sql),
    // mariadb gives it back in the background, and says so with a promise that rejects when the connection has died.
    release: () => void Promise.resolve(connection.release()).catch(() => undefined),
    destroy() {
      if (socket === undefined) return connection.destroy()
      // The client has noticed by then, and nothing is unanswered any more.
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
      // An error that nobody listens to would end the process, also one that comes after the end.
      connection.on('error', () => undefined)
      return stop
    },
  }
}

/** mysql2 answers `[rows, fields]`, mariadb the rows; what is not rows is a header with `insertId` in both. */
function answerOf(result: unknown): Answer {
  const first = Array.isArray(result) && isMysql2(result) ? result[0] : result
  if (Array.isArray(first)) return { rows: first, id: 0, changed: 0, inTransaction: undefined }
  const { insertId, affectedRows, serverStatus } = (first ?? {}) as Readonly<Record<string, unknown>>
  return {
    rows: [],
    id: Number(String(insertId ?? 0)),
    changed: Number(affectedRows ?? 0),
    inTransaction: typeof serverStatus === 'number' ? (serverStatus & 1) === 1 : undefined,
  }
}

/** A row of ours is an array, too, but none has a header or rows as its first value. */
function isMysql2(result: readonly unknown[]): boolean {
  const [first, fields] = result
  if (result.length !== 2) return false
  if (!Array.isArray(first)) return typeof first === 'object' && first !== null && 'insertId' in first
  return (
    Array.isArray(fields) &&
    fields.every((field) => typeof field === 'object' && field !== null && !Array.isArray(field))
  )
}

export function text(value: Value): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? Buffer.from(value).toString('utf8') : String(value)
}

export function number(value: Value): number {
  return value === null || value === undefined ? 0 : Number(text(value))
}
