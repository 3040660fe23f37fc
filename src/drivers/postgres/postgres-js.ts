/**
 * An instance of postgres.js. It opens connections for nobody else, so statements run on those of its pool; it listens on one
 * of its own. For `session` one is reserved. A connection that ended is not told, only found out by the next statement.
 */
import type { Database, PostgresJs, Value, Wire } from './client.js'
import { answerOf } from './inspect.js'

export function fromPostgresJs(sql: PostgresJs): Database {
  const on = (unsafe: PostgresJs['unsafe']) => ({
    query: async (text: string, values: readonly Value[]) =>
      answerOf(await unsafe(text, values.map(asText) as never[])),
    script: async (text: string) => void (await unsafe(text).simple()),
  })
  return {
    ended: false,
    async open(events): Promise<Wire> {
      const reserved = await sql.reserve()
      let busy = 0
      const { query, script } = on(reserved.unsafe)
      const asked = async <T>(result: Promise<T>): Promise<T> => {
        busy++
        try {
          return await result
        } catch (error) {
          if (/^CONNECTION_/.test(String((error as { code?: unknown }).code))) events.gone()
          throw error
        } finally {
          busy--
        }
      }
      return {
        pid: undefined,
        get busy() {
          return busy
        },
        query: (text, values) => asked(query(text, values)),
        script: (text) => asked(script(text)),
        destroy: () => {
          events.gone()
          // It goes back to the pool, and with it must go nothing of ours.
          reserved
            .unsafe(`select pg_advisory_unlock_all(), set_config('idle_session_timeout', '0', false)`)
            .then(reserved.release, reserved.release)
        },
      }
    },
    shared: {
      ...on((text, values, options) => sql.unsafe(text, values, options)),
      async listen(channel, heard, up) {
        const listening = await sql.listen(channel, heard, up)
        return async () => void (await listening.unlisten().catch(() => undefined))
      },
    },
  }
}

/** A number given for a text parameter would be refused; PostgreSQL reads both from text. */
function asText(value: Value): string | null {
  return value === null ? null : String(value)
}
