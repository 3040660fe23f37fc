/** How a pool of either client gives a connection, and what is under it. */
import type { MysqlConnection, MysqlPool } from './client.js'

/** The parts of the socket under a mariadb connection that the driver uses. */
export interface Socket {
  readonly destroyed: boolean
  destroy(why: Error): unknown
  once(event: 'close', listener: () => void): unknown
}

/** What a mariadb pool reports with its event `acquire`. */
interface Acquired {
  readonly threadId?: unknown
  readonly socket?: Socket
}

export interface Borrowed {
  readonly given: unknown
  /** Of a mariadb connection. */
  readonly socket?: Socket | undefined
  /** The object that the client wraps anew each time its pool hands it out. */
  readonly bare?: object | undefined
}

/**
 * A connection and, with mariadb, the socket under it. If a statement is unanswered, the `destroy()` of a mariadb connection opens another
 * connection and sends `KILL` with a number that may by then be somebody else's; if the server refuses the `KILL`, the process ends, because
 * nobody can catch the error. Closing the socket needs no server.
 */
export async function borrow(pool: MysqlPool): Promise<Borrowed> {
  const core = findCorePool(pool)
  if (core !== undefined) return borrowCore(core)
  const events = pool as Partial<Pick<MysqlConnection, 'on' | 'off'>>
  // mysql2 pools close the socket themselves.
  if ('pool' in pool || typeof events.on !== 'function' || typeof events.off !== 'function') {
    const given = await pool.getConnection()
    return { given, bare: (given as { readonly connection?: object } | undefined)?.connection }
  }
  const all = new Map<unknown, Acquired>()
  const note = (one: unknown) => void all.set((one as Acquired).threadId, one as Acquired)
  events.on('acquire', note)
  try {
    const given = await pool.getConnection()
    const bare = all.get((given as Acquired | undefined)?.threadId)
    return { given, socket: bare?.socket, bare }
  } finally {
    events.off('acquire', note)
  }
}

/** The pool of mysql2 under its promise flavour, and a connection of it. */
interface CorePool {
  getConnection(done: (error: unknown, connection: CoreConnection) => void): void
}

interface CoreConnection extends Omit<MysqlConnection, 'query'> {
  query(options: object, done: (error: unknown, result: unknown) => void): unknown
}

/**
 * The promise flavour of mysql2 makes an object with listeners of each connection that it hands out, and captures the stack of each statement; its
 * types show the pool underneath, which does neither. Undefined: there is none, or somebody has put a `getConnection` of their own before it.
 */
function findCorePool(pool: MysqlPool): CorePool | undefined {
  const own = Object.getPrototypeOf(pool) as
    | (MysqlPool & { readonly constructor?: { readonly name?: unknown } })
    | null
  if (own?.constructor?.name !== 'PromisePool') return undefined
  if (Object.hasOwn(pool, 'getConnection') || pool.getConnection !== own.getConnection) return undefined
  const core = (pool as { readonly pool?: Partial<CorePool> | null }).pool
  return typeof core?.getConnection === 'function' ? (core as CorePool) : undefined
}

function borrowCore(core: CorePool): Promise<Borrowed> {
  return new Promise((resolve, reject) => {
    core.getConnection((error, connection) => {
      if (error) reject(error)
      else resolve({ given: promised(connection), bare: connection })
    })
  })
}

function promised(connection: CoreConnection): MysqlConnection & { readonly connection: CoreConnection } {
  return {
    connection,
    query: (options) =>
      new Promise((resolve, reject) => {
        connection.query(options, (error, result) => {
          if (error) reject(error)
          else resolve([result])
        })
      }),
    release: () => connection.release(),
    destroy: () => connection.destroy(),
    on: (event, listener) => connection.on(event, listener),
    off: (event, listener) => connection.off(event, listener),
  }
}
