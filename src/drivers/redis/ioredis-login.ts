/**
 * Why an ioredis client is not logged in. While it logs in, it holds every command back but those that a loading server answers, such as INFO: they
 * leave behind the AUTH. If the server refuses that, it refuses them as well, for lack of a login (NOAUTH), and both replies may arrive together.
 * The client reports the refused AUTH in an event a few microtasks later.
 */
import type { Clock } from '../../core/clock.js'
import type { Reply } from './client.js'
import type { ConnectionErrors } from './connection-errors.js'

/** The answer; instead of NOAUTH the reply to the client's own AUTH, if that was refused. */
export async function whyNoLogin(
  answer: Promise<Reply>,
  clock: Clock,
  errors: ConnectionErrors,
): Promise<Reply> {
  try {
    return await answer
  } catch (error) {
    if (!isNoAuth(error)) throw error
    await new Promise<void>((resolve) => clock.soon(resolve))
    // An older error, of a connection that was refused, explains nothing here.
    throw isRefusal(errors.last) ? errors.last : error
  }
}

/** Before version 6 a wrong password is an ERR. */
const isRefusal = (error: Error | undefined) => error !== undefined && /^(WRONGPASS|ERR) /.test(error.message)
const isNoAuth = (error: unknown) => error instanceof Error && error.message.startsWith('NOAUTH')
