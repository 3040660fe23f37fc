/**
 * Support for a pg `Pool`. The driver opens its own connections with the pool's settings. So it never waits for a pool connection, which
 * lock holders may all be using, and no statement runs in a transaction left open on one.
 */
import type { Connection, ConnectionEvents, Database, PgPool, Value } from './client.js'
import { isEndOfConnection } from './failure.js'
import { parseAnswer } from './inspect.js'

/** The parts of a pg connection that the driver uses, including those that only some versions have. */
interface PgClient {
  connect(): Promise<unknown>
  query(text: string, values?: unknown[]): Promise<unknown>
  end(): Promise<void>
  on(event: string, listener: (...args: never[]) => void): unknown
  readonly processID?: number | null
  readonly connection?: { readonly stream?: { destroy?(): void } }
  ref?(): void
  unref?(): void
}

export function fromPool(pool: PgPool): Database {
  return {
    get ended() {
      return pool.ended || (pool as { ending?: boolean }).ending === true
    },
    async open(events) {
      // `pipeline`: sends each statement at once, without waiting for earlier answers; older versions do not know the option.
      const own = { pipeline: true, keepAlive: true, types: rawTypes }
      const settings = { ...pool.options, ...readPassword(pool), ...own }
      const { Client } = pool as unknown as { readonly Client: new (settings: object) => PgClient }
      const client = new Client(settings)
      return toConnection(client, events)
    },
  }
}

/** Every answer is text; the pool's own parsers may convert texts to something else. */
const rawTypes = { getTypeParser: () => String }

/** The pool hides the password from enumeration. */
function readPassword({ options }: PgPool): object {
  return 'password' in options ? { password: options.password } : {}
}

async function toConnection(client: PgClient, events: ConnectionEvents): Promise<Connection> {
  let gone = false
  let busy = 0
  const end = () => {
    if (gone) return
    gone = true
    events.closed()
  }
  const destroy = () => {
    const stream = client.connection?.stream
    if (stream?.destroy === undefined) void client.end().catch(() => undefined)
    else stream.destroy()
  }
  client.on('error', end)
  client.on('end', end)
  client.on('notification', ((message: { payload?: string }) =>
    events.notified(message.payload ?? '')) as never)
  try {
    await client.connect()
  } catch (error) {
    gone = true
    destroy()
    throw error
  }
  // A lease alone does not keep the process alive.
  client.unref?.()
  const asked = async (result: Promise<unknown>): Promise<unknown> => {
    if (busy++ === 0) client.ref?.()
    try {
      return await result
    } catch (error) {
      // The server ends the connection. The socket reports it later, and the server would execute nothing sent until then.
      if (isEndOfConnection(error)) {
        end()
        destroy()
      }
      throw error
    } finally {
      if (--busy === 0 && !gone) client.unref?.()
    }
  }
  const toRows = (result: unknown) => parseAnswer((result as { rows: unknown }).rows)
  return {
    pid: client.processID ?? undefined,
    get busy() {
      return busy
    },
    query: async (text, values: readonly Value[]) => toRows(await asked(client.query(text, [...values]))),
    script: async (text) => void (await asked(client.query(text))),
    destroy,
  }
}
