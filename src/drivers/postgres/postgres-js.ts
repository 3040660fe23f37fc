/**
 * An instance of postgres.js. It opens connections for nobody else, so statements run on those of its pool; it listens on one
 * of its own. For `session` the instance must be one connection that is never replaced on purpose. (One reserved from a larger
 * pool will not do: postgres.js 3.4 throws where nobody can catch it when a reserved connection that has ended is used.) An end is
 * not told, only found out by the next statement, which comes over another connection or fails.
 */
import type { Database, PostgresJs, Value, Wire, WireEvents } from './client.js'
import { answerOf } from './inspect.js'
import { codeOf } from './trouble.js'

export function fromPostgresJs(sql: PostgresJs): Database {
  const { unsafe } = sql
  return {
    ended: false,
    ...unfit(sql),
    open: async (events) => only(sql, events),
    shared: {
      query: async (text, values) => answerOf(await unsafe(text, values.map(asText) as never[])),
      script: async (text) => void (await unsafe(text).simple()),
      async listen(channel, heard, up) {
        const listening = await sql.listen(channel, heard, up)
        return async () => void (await listening.unlisten().catch(() => undefined))
      },
    },
  }
}

/** What a result says of the connection it came over. */
interface Result {
  readonly state?: { readonly pid?: number }
}

function unfit({ options }: PostgresJs): { unfit?: string } {
  const { max, max_lifetime: lifetime, idle_timeout: idle } = options
  if (max === 1 && !lifetime && !idle) return {}
  return { unfit: 'make an instance of its own for it: postgres(url, { max: 1, max_lifetime: null })' }
}

function only({ unsafe }: PostgresJs, events: WireEvents): Wire {
  let busy = 0
  let pid: number | undefined
  let gone = false
  const end = () => {
    if (gone) return
    gone = true
    events.gone()
  }
  const asked = async (query: PromiseLike<unknown>): Promise<unknown> => {
    busy++
    try {
      const result = await query
      const present = (result as Result).state?.pid
      pid ??= present
      // It connected again by itself: another session, without our locks.
      if (present !== pid)
        throw Object.assign(new Error('the connection was replaced'), { code: 'CONNECTION_CLOSED' })
      return result
    } catch (error) {
      if (/^CONNECTION_|^57P0/.test(codeOf(error))) end()
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
    query: async (text, values) => answerOf(await asked(unsafe(text, values.map(asText) as never[]))),
    script: async (text) => void (await asked(unsafe(text).simple())),
    destroy: () => {
      end()
      // The connection stays the instance's; nothing of ours may stay on it.
      const clean = `select pg_advisory_unlock_all(), set_config('idle_session_timeout', '0', false)`
      unsafe(clean).then(undefined, () => undefined)
    },
  }
}

/** A number given for a text parameter would be refused; PostgreSQL reads both from text. */
function asText(value: Value): string | null {
  return value === null ? null : String(value)
}
