/** Runs a script at one server, which gets its text if it lacks it. */
import { createHash } from 'node:crypto'
import type { Connection, Reply } from '../redis/client.js'
import { toRefusal } from './refusal.js'
import type { Script } from './state.js'

const shas = new Map<Script, string>()

/** Rejects with a `Refusal` where the server will not run it until somebody fixes the cause. */
export function runScript(
  connection: Connection,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<readonly Reply[]> {
  return connection.run('EVALSHA', scriptHash(script), keys, args).then(toParts, async (error) => {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw toRefusal(error)
    return connection.run('EVAL', script.text, keys, args).then(toParts, (refused) => {
      throw toRefusal(refused)
    })
  })
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
