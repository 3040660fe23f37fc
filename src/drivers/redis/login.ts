/**
 * A client whose login the server refuses. Between two tries, some of which are seconds apart, the client holds every request back, and while it logs in
 * it may send some behind the AUTH: they are refused for lack of a login (NOAUTH), in the same packet as the AUTH itself, whose reply the client
 * reports in an event a few microtasks later.
 */
import type { Clock } from '../../core/clock.js'
import type { Connection } from './client.js'
import type { ConnectionErrors } from './connection-errors.js'

/** Of one server: among several, another one may have let the client in. */
export function loggedIn(connection: Connection, errors: ConnectionErrors, clock: Clock): Connection {
  const why = async (error: unknown): Promise<never> => {
    if (!(error instanceof Error) || !withoutLogin.test(error.message)) throw error
    await new Promise<void>((resolve) => clock.soon(resolve))
    throw refusalOf(errors.last) ?? error
  }
  /** Rejects at once with what the server has said to the last login, if it refused that. */
  const send = <T>(request: () => Promise<T>): Promise<T> => {
    const refusal = refusalOf(errors.last)
    return refusal === undefined ? request().catch(why) : Promise.reject(refusal)
  }
  const own = {
    run: (...request) => send(() => connection.run(...request)),
    runAndWait: (...request) => send(() => connection.runAndWait(...request)),
    command: (...request) => send(() => connection.command(...request)),
    scan(pattern) {
      const pages = connection.scan(pattern)
      return { next: () => send(() => pages.next()) }
    },
  } satisfies Partial<Connection>
  return Object.assign(Object.create(connection) as Connection, own)
}

/** The last is the reply to a long command of a client that has not logged in. */
const withoutLogin = /^NOAUTH |^ERR Protocol error: unauthenticated /

const readyCheck = /^Ready check failed: ?/

/** The reply to a login. ioredis puts words of its own before that to its INFO. Before version 6 of Redis a wrong password is an ERR. */
function refusalOf(error: Error | undefined): Error | undefined {
  const reply = error?.message.replace(readyCheck, '')
  if (reply === undefined || !/^(WRONGPASS |NOAUTH |ERR invalid password|ERR AUTH )/.test(reply))
    return undefined
  return reply === error?.message ? error : new Error(reply, { cause: error })
}
