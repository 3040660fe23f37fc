/**
 * Statements to the server: each on a connection out of the pool, for as long as it takes and no longer.
 *
 * At most `connections` are out at once, so that many waiters do not use up a pool that the holder may need, too; what ends or
 * proves a hold goes before what begins one. A connection that has not answered in time is closed, not given back: nobody
 * knows what it would answer next. A statement that was rolled back for another one is sent again at once.
 */
import type { Clock } from '../../core/clock.js'
import { BackendError } from '../../core/errors.js'
import { type Answer, type Connection, connect, type MysqlPool } from './client.js'
import { isConflict } from './trouble.js'

export interface Reply extends Answer {
  /** Clock reading before the statement left. */
  readonly sent: number
}

export interface Link {
  /** @throws what the client throws; Error when there is no answer in time */
  ask(sql: string, urgent?: boolean): Promise<Reply>
}

/** How often a statement may be rolled back for others before that is reported. */
const mostConflicts = 50

export function createLink(pool: MysqlPool, clock: Clock, timeout: number, connections: number): Link {
  let out = 0
  const urgently: (() => void)[] = []
  const later: (() => void)[] = []

  const enter = (urgent: boolean) => {
    if (out < connections) {
      out++
      return undefined
    }
    return new Promise<void>((resolve) => void (urgent ? urgently : later).push(resolve))
  }
  /** The place goes to the next in line, or is free again. */
  const exit = () => {
    const next = urgently.shift() ?? later.shift()
    if (next === undefined) out--
    else next()
  }

  const once = async (sql: string): Promise<Reply> => {
    const connection = await borrowed(pool, clock, timeout)
    const sent = clock.now()
    let answered = false
    try {
      const answer = await inTime(clock, timeout, connection.query(sql))
      answered = true
      assertCommitted(answer)
      return { ...answer, sent }
    } catch (error) {
      // A refusal of the server is an answer, too; after anything else the connection is of no use.
      answered ||= isRefusal(error)
      throw error
    } finally {
      if (answered) connection.release()
      else connection.destroy()
    }
  }

  return {
    async ask(sql, urgent = false) {
      await enter(urgent)
      try {
        for (let n = 0; ; n++) {
          try {
            return await once(sql)
          } catch (error) {
            if (!isConflict(error) || n === mostConflicts) throw error
          }
        }
      } finally {
        exit()
      }
    },
  }
}

/** A pool that is used up may give a connection after all when nobody waits for it any more: that one goes back. */
async function borrowed(pool: MysqlPool, clock: Clock, timeout: number): Promise<Connection> {
  const coming = connect(pool)
  try {
    return await inTime(clock, timeout, coming)
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

/** What is not committed is not there for anybody else, and keeps the row locked. */
function assertCommitted({ inTransaction }: Answer): void {
  if (inTransaction !== true) return
  throw new BackendError(
    'mysql',
    'the pool gave a connection that is inside a transaction; let its connections have autocommit on, and end transactions before giving them back',
  )
}

/** Neither an answer nor the end of the connection. */
export class Silence extends Error {}

/** Gives up after `ms`. An answer that arrived while the event loop stood still is read first. */
export async function inTime<T>(clock: Clock, ms: number, answer: Promise<T>): Promise<T> {
  let stop = () => {}
  const late = new Promise<never>((_, reject) => {
    const silent = () => reject(new Silence(`no answer within ${ms} ms`))
    stop = clock.at(clock.now() + ms, () => clock.soon(silent), { ref: false })
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    stop()
  }
}
