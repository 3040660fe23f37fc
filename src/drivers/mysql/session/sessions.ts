/** Opens the session of a process, and another one when it has ended. */
import type { Clock } from '../../../core/clock.js'
import { connect, number } from '../client.js'
import { type Connections, withTimeout } from '../connections.js'
import { useDatabase } from '../database.js'
import { isConflict, resending } from '../failure.js'
import type { Settings } from '../options.js'
import { autocommit } from '../sql-transaction.js'
import { endedDuring, Session } from './session.js'

export interface Sessions extends Connections {
  /** The present session, or a new one. */
  current(): Promise<Session>
  close(): void
}

/** @param seconds for which the server keeps a new, silent connection */
export function createSessions({ pool, commandTimeout }: Settings, clock: Clock, seconds = 1): Sessions {
  let session: Session | undefined
  let opening: Promise<Session> | undefined
  let closed = false

  const open = async (): Promise<Session> => {
    const coming = connect(pool)
    const connection = await withTimeout(clock, commandTimeout, coming).catch((error) => {
      coming.then(
        (late) => late.release(),
        () => undefined,
      )
      throw error
    })
    const sent = clock.now()
    const ask = (statement: string) => withTimeout(clock, commandTimeout, connection.query(statement))
    try {
      // An application that shares the pool may have left a transaction or tables locked, another database in use, the time fixed, answers cut, or
      // a character set in which statements or answers cannot be read. Whatever `completion_type` says, no other transaction begins, and the connection stays.
      await ask('ROLLBACK AND NO CHAIN NO RELEASE')
      await ask('UNLOCK TABLES')
      await ask('SET SESSION TRANSACTION READ WRITE')
      // Before the character set: the client writes a name as its options say.
      if (connection.database !== undefined) await ask(useDatabase(connection.database))
      await ask('SET NAMES utf8mb4')
      const { rows } = await ask(autocommit)
      if (number(rows[0]?.[0]) !== 1) await ask('SET autocommit = 1')
      await ask(
        `SET timestamp = DEFAULT, sql_select_limit = DEFAULT, sql_big_selects = 1, wait_timeout = ${seconds}`,
      )
    } catch (error) {
      connection.destroy()
      throw error
    }
    session = new Session(connection, clock, commandTimeout, sent, seconds * 1000)
    if (closed) session.end()
    return session
  }

  const current = async (): Promise<Session> => {
    if (session !== undefined && !session.isOver) return session
    opening ??= resending(open).finally(() => {
      opening = undefined
    })
    return opening
  }

  return {
    current,
    async execute(statement) {
      let again = false
      for (let n = 0; ; n++) {
        const one = await current()
        try {
          return await one.execute(statement)
        } catch (error) {
          if (!again && !closed && endedDuring(one, error)) again = true
          else if (!isConflict(error) || n === 50) throw error
        }
      }
    },
    close() {
      closed = true
      session?.end(new Error('the locks were closed'))
    },
  }
}
