/**
 * Support for a postgres.js instance. It opens no connections for others, so statements run on those of its pool; it listens on a
 * separate connection. For `session`, the instance must be one connection that it never replaces on purpose. (A connection reserved
 * from a larger pool will not do: if it has ended and is then used, postgres.js 3.4 throws an error that cannot be caught.) The end of
 * that connection is not reported; the next statement detects it, because it runs on another connection or fails.
 */
import { BackendError } from '../../core/errors.js'
import type {
  Answer,
  Connection,
  ConnectionEvents,
  Database,
  PostgresJs,
  PostgresJsQuery,
  Value,
} from './client.js'
import { findCode, isEndOfConnection } from './failure.js'
import { behindGuard, scriptUnlessInside, toRefusal, type Unsafe, unlessInside } from './own-transaction.js'
import { assertNoSerializer, toParameters } from './parameters.js'

/** Bytes, which no option of the instance but `transform.row` changes; not so where somebody has wrapped it, and it gives plain promises. */
export function raw(query: PostgresJsQuery | PromiseLike<unknown>): PromiseLike<unknown> {
  return 'raw' in query ? query.raw() : query
}

/** Without values it is one simple query anyway; only early versions need this call. */
const simple = (query: PostgresJsQuery | PromiseLike<unknown>) => ('simple' in query ? query.simple() : query)

/** @param rows of `raw()` */
export function toAnswer(rows: unknown): Answer {
  const [row] = rows as readonly object[]
  const [answer] = Object.values(row ?? {})
  if (answer instanceof Uint8Array) return new TextDecoder().decode(answer)
  if (typeof answer === 'string') return answer
  throw new BackendError(
    'postgres',
    'transform.row of the instance of postgres.js changes the answers of the server; give the locks an instance without it',
  )
}

const nothing = () => undefined

/** How often a statement is sent if it does nothing on the connection that it gets; each time on another connection, if there are any. */
const maxTries = 3

/** Sends statements that do nothing inside a transaction of the application, or where its client_encoding would change names. */
function senderOver(sql: PostgresJs) {
  const { unsafe, options } = sql as PostgresJs & { readonly unsafe: Unsafe }
  const tries = options.max === 1 ? 1 : maxTries
  return {
    /** @param run sees the result, too */
    async query(
      text: string,
      values: readonly Value[],
      run = (result: Promise<unknown>): Promise<unknown> => result,
    ): Promise<Answer> {
      let refusal: Error | undefined
      for (let i = 0; i < tries; i++) {
        const make = () => raw(unsafe(unlessInside(text), toParameters(sql, values)))
        const answer = toAnswer(await run(behindGuard(unsafe, make)))
        refusal = toRefusal(answer)
        if (refusal === undefined) return answer
      }
      throw refusal
    },
    script: (text: string): Promise<unknown> =>
      behindGuard(unsafe, () => simple(unsafe(scriptUnlessInside(text)))),
  }
}

export function fromPostgresJs(sql: PostgresJs): Database {
  assertNoSerializer(sql.options)
  const { query, script } = senderOver(sql)
  return {
    ended: false,
    ...unsuitable(sql),
    open: async (events) => only(sql, events),
    shared: {
      query: (text, values) => query(text, values),
      script: async (text) => void (await script(text)),
      ended: (gone) => onConnectionEnds(sql.options, gone),
      listen: (channel, onPayload, up) =>
        new Promise((resolve) => {
          // If it cannot connect, postgres.js tries again by itself; every further call would add another listener to that try.
          const listening = sql.listen(channel, onPayload, () => {
            up()
            resolve(stop)
          })
          const stop = () => listening.then(({ unlisten }) => unlisten().then(nothing, nothing), nothing)
          // Early versions do not call back.
          listening.then(() => resolve(stop), nothing)
        }),
    },
  }
}

/** Listeners for the ends of an instance's connections, by its options object. */
const endHooks = new WeakMap<object, Set<() => void>>()

/** postgres.js reports the end of a connection only to its `onclose` option. An `onclose` set before is still called. */
function onConnectionEnds(options: PostgresJs['options'], gone: () => void): () => void {
  let all = endHooks.get(options)
  if (all === undefined) {
    const listeners = new Set<() => void>()
    const { onclose: before } = options as { readonly onclose?: (id: unknown) => unknown }
    const onclose = (id: unknown) => {
      for (const listener of listeners) listener()
      return before?.(id)
    }
    Object.assign(options, { onclose })
    endHooks.set(options, listeners)
    all = listeners
  }
  all.add(gone)
  return () => void all.delete(gone)
}

/** The part of a result that identifies its connection. */
interface Result {
  readonly state?: { readonly pid?: number }
}

function unsuitable({ options }: PostgresJs): { unsuitable?: string } {
  const { max, max_lifetime: lifetime, idle_timeout: idle } = options
  if (max === 1 && !lifetime && !idle) return {}
  return { unsuitable: 'make an instance of its own for it: postgres(url, { max: 1, max_lifetime: null })' }
}

function only(sql: PostgresJs, events: ConnectionEvents): Connection {
  const { query, script } = senderOver(sql)
  let busy = 0
  let pid: number | undefined
  let gone = false
  const end = () => {
    if (gone) return
    gone = true
    events.closed()
  }
  const asked = async (query: PromiseLike<unknown>): Promise<unknown> => {
    busy++
    try {
      const result = await query
      // Of several statements it is a list of results.
      const present = ((result as Result).state ?? (result as Result[])[0]?.state)?.pid
      pid ??= present
      // postgres.js reconnected by itself: another session, without our locks.
      if (present !== pid)
        throw Object.assign(new Error('the connection was replaced'), { code: 'CONNECTION_CLOSED' })
      return result
    } catch (error) {
      if (isEndOfConnection(error) || /^CONNECTION_|^57P03$/.test(findCode(error))) end()
      throw error
    } finally {
      busy--
    }
  }
  return {
    get pid() {
      return pid
    },
    get busy() {
      return busy
    },
    query: (text, values) => query(text, values, asked),
    script: async (text) => void (await asked(script(text))),
    destroy: () => {
      end()
      // The instance keeps the connection; nothing of ours may stay on it.
      const clean = `select pg_advisory_unlock_all(), set_config('idle_session_timeout', '0', false)`
      sql.unsafe(clean).then(undefined, () => undefined)
    },
  }
}
