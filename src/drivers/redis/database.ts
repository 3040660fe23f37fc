/**
 * A client that is set to a database which the server does not have. ioredis reports the refused SELECT in an event and goes on in database 0; node-redis
 * breaks the connection, but the server executes what it had written behind the SELECT in database 0. Locks there belong to others.
 */
import { BackendError } from '../../core/errors.js'
import type { Connection } from './client.js'
import { lastingRefusal } from './failure.js'

/** A SELECT inside a script ends with the script, so that an application which has selected another database stays there. */
const select = "local reply = redis.pcall('SELECT', ARGV[1]) return reply.err or 'OK'"

interface ClientWithDatabase {
  /** `db` of ioredis, `database` of node-redis. */
  readonly options?: { readonly db?: number; readonly database?: number }
  /** Of ioredis, undocumented: the database that was selected last, and is selected again after a reconnect. */
  readonly condition?: { readonly select?: number } | null
}

/** The database that a client is set to now. */
export function databaseOf(client: object): number {
  const { condition, options } = client as ClientWithDatabase
  return condition?.select ?? options?.db ?? options?.database ?? 0
}

/**
 * The connection, on which the server is asked for the database before the first request and after every reconnect. For database 0, nothing is asked.
 * @param database that the client is set to now
 */
export function inDatabase(connection: Connection, database: () => number): Connection {
  let found = false
  let asking: Promise<void> | undefined
  const ask = async (wanted: string) => {
    const reply = await connection.run('EVAL', select, [], [wanted])
    if (reply !== 'OK') throw refused(wanted, String(reply))
  }
  /** Undefined: the database is there. */
  const missing = (): Promise<void> | undefined => {
    const wanted = database()
    if (found || wanted === 0) return undefined
    if (asking !== undefined) return asking
    const asked = ask(String(wanted)).then(
      () => {
        if (asking === asked) found = true
      },
      (error) => {
        if (asking === asked) asking = undefined
        throw error
      },
    )
    asking = asked
    return asked
  }
  const then = <T>(send: () => Promise<T>): Promise<T> => missing()?.then(send) ?? send()
  const own = {
    run: (...request) => then(() => connection.run(...request)),
    runAndWait: (...request) => then(() => connection.runAndWait(...request)),
    async *scan(pattern) {
      await missing()
      const pages = connection.scan(pattern)
      for (let page = await pages.next(); !page.done; page = await pages.next()) yield page.value
    },
    watch: (down, up) =>
      connection.watch(() => {
        found = false
        asking = undefined
        down()
      }, up),
  } satisfies Partial<Connection>
  return Object.assign(Object.create(connection) as Connection, own)
}

function refused(database: string, reply: string): BackendError {
  const remedy =
    lastingRefusal(reply)?.[0] === 'NOPERM'
      ? 'ACL SETUSER <user> +select, or database 0'
      : "choose another one in the client's options or at the end of its URL; a server has 0 to 15 unless its setting `databases` says otherwise, a node of a Cluster only 0"
  return new BackendError('redis', `the server refused database ${database} (${reply}): ${remedy}`)
}
