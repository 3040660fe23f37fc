/** Runs a script at one server, which gets its text if it lacks it. */
import { createHash } from 'node:crypto'
import type { Connection, Reply } from '../redis/client.js'
import { toRefusal } from './refusal.js'
import type { Script } from './state.js'

const shas = new Map<Script, string>()

/**
 * Resolves with what `read` returns for the reply, or `failed` for the error, in one promise: further ones, for each server and each
 * vote, are a large share of the work of the client. The error is a `Refusal` where the server will not run it until somebody fixes
 * the cause.
 */
export function runScript<A>(
  connection: Connection,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  read: (parts: readonly Reply[]) => A,
  failed: (error: unknown) => A,
): Promise<A> {
  const answered = (reply: Reply) => read(toParts(reply))
  const refused = (error: unknown) => failed(toRefusal(error))
  // A client that throws, instead of rejecting.
  const send = (how: 'EVALSHA' | 'EVAL', text: string): Promise<Reply> => {
    try {
      return connection.run(how, text, keys, args)
    } catch (error) {
      return Promise.reject(error)
    }
  }
  const again = (error: unknown) => {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) return refused(error)
    return send('EVAL', script.text).then(answered, refused)
  }
  return send('EVALSHA', scriptHash(script)).then(answered, again)
}

/** The short cuts reply with one string. */
function toParts(reply: Reply): readonly Reply[] {
  if (typeof reply === 'string') return reply.split(' ')
  return Array.isArray(reply) ? reply : [reply]
}

function scriptHash(script: Script): string {
  const known = shas.get(script)
  if (known !== undefined) return known
  const sha = createHash('sha1').update(script.text).digest('hex')
  shas.set(script, sha)
  return sha
}
