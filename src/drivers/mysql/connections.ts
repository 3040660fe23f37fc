/**
 * Sends statements to the server, each on a connection from the pool, for as long as the statement takes and no longer.
 *
 * At most `connections` are in use at once, so that many waiters do not use up a pool that the holder may also need. Statements that end
 * or prove a hold, and those of operators, go before those that begin one. A connection that has not answered in time is closed, not returned: nobody
 * knows what it would answer next. A statement that was rolled back for another one is sent again at once; so is one that was
 * refused for what the application has left on the connection, on another one, and that connection is closed.
 */
import type { Clock } from '../../core/clock.js'
import { TimeLimit } from '../../core/time-limit.js'
import { type Answer, type Connection, connect, type MysqlPool, number, text } from './client.js'
import { onConnectionEnd } from './connection-end.js'
import { qualifier } from './database.js'
import { isLeft, resending } from './failure.js'
import type { ConnectionEvents } from './hold-check.js'
import type { Settings } from './options.js'
import { expiryExpression } from './sql.js'
import { assertCommitted } from './uncommitted.js'

export interface Reply extends Answer {
  /** Clock reading before the statement was sent. */
  readonly sent: number
}

export interface Connections {
  /** @throws what the client throws; Error when no answer arrives in time */
  execute(sql: string, priority?: boolean): Promise<Reply>
}

/** @param events notified of connections that are new here */
export function createConnections(
  { pool, prefix, commandTimeout: timeout, connections }: Settings,
  clock: Clock,
  events: ConnectionEvents,
): Connections & { close(): void } {
  let out = 0
  /** Known from the first connection on, if its options name a database. */
  let qualify: ((statement: string) => string) | undefined
  const seenConnections = new WeakSet<object>()
  /** Functions that end the watch over each live connection. */
  const watches = new Set<() => void>()
  let closed = false
  const urgently: (() => void)[] = []
  const later: (() => void)[] = []

  const enter = (priority: boolean) => {
    if (out < connections) {
      out++
      return undefined
    }
    return new Promise<void>((resolve) => void (priority ? urgently : later).push(resolve))
  }
  /** Passes the slot to the next in the queue, or frees it. */
  const exit = () => {
    const next = urgently.shift() ?? later.shift()
    if (next === undefined) out--
    else next()
  }

  /** The first statement on a connection. The server, or a proxy in front of it, may refuse it: then its life is unknown. */
  const meet = async (connection: Connection) => {
    const { identity, query } = connection
    if (seenConnections.has(identity)) return
    const { rows } = await withTimeout(clock, timeout, query(expiryExpression)).catch((error) => {
      if (isRefusal(error) && !isLeft(error)) return { rows: [] }
      throw error
    })
    if (closed || seenConnections.has(identity)) return
    seenConnections.add(identity)
    const unwatch = onConnectionEnd(connection, () => {
      watches.delete(unwatch)
      events.ended()
    })
    watches.add(unwatch)
    const [incarnation, lowerCase] = rows[0] ?? []
    const { database } = connection
    // Of these settings only 1 changes what `DATABASE()` returns.
    if (database !== undefined)
      qualify ??= qualifier(prefix, number(lowerCase) === 1 ? database.toLowerCase() : database)
    const life = text(incarnation)
    if (life !== '') events.connected(life)
  }

  const once = async (sql: string): Promise<Reply> => {
    const connection = await borrowConnection(pool, clock, timeout)
    let answered = false
    try {
      await meet(connection)
      const sent = clock.now()
      const answer = await withTimeout(clock, timeout, connection.query(qualify?.(sql) ?? sql))
      // Uncommitted, the change would take effect whenever the connection's next user commits: it goes with the connection.
      assertCommitted(answer)
      answered = true
      return { ...answer, sent }
    } catch (error) {
      // A refusal by the server is an answer, too; after anything else, and if it would refuse again, the connection is useless.
      answered ||= isRefusal(error) && !isLeft(error)
      throw error
    } finally {
      if (answered) connection.release()
      else connection.destroy()
    }
  }

  return {
    async execute(sql, priority = false) {
      await enter(priority)
      try {
        return await resending(() => once(sql))
      } finally {
        exit()
      }
    },
    close() {
      closed = true
      for (const unwatch of watches) unwatch()
      watches.clear()
    },
  }
}

/** An exhausted pool may give a connection after all when nobody waits for it any more: that connection goes back. */
async function borrowConnection(pool: MysqlPool, clock: Clock, timeout: number): Promise<Connection> {
  const coming = connect(pool)
  try {
    return await withTimeout(clock, timeout, coming)
  } catch (error) {
    coming.then(
      (connection) => connection.release(),
      () => undefined,
    )
    throw error
  }
}

const isRefusal = (error: unknown) => {
  const { sqlState, fatal } = error as { readonly sqlState?: unknown; readonly fatal?: unknown }
  return (
    typeof sqlState === 'string' && fatal !== true && !sqlState.startsWith('08') && !sqlState.startsWith('70')
  )
}

/** The server sent neither an answer nor the end of the connection. */
export class NoAnswerError extends Error {}

/** Gives up after `ms`. */
export function withTimeout<T>(clock: Clock, ms: number, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const silent = () => reject(new NoAnswerError(`no answer within ${ms} ms`))
    const limit = new TimeLimit(clock, ms, silent, { ref: false }).armSoon()
    const answered = (value: T) => {
      limit.stop()
      resolve(value)
    }
    const failed = (error: unknown) => {
      limit.stop()
      reject(error)
    }
    answer.then(answered, failed)
  })
}
