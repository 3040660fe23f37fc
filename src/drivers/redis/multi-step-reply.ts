/**
 * Continues granting along a long queue. A script checks only a few waiters, so that it never blocks the server for long. Where it
 * stopped early, the process that ran it continues here, until a waiter has the lock or none is left. If this process crashes first,
 * the waiters find out at their next poll.
 */
import type { Reply } from './client.js'
import type { Keys } from './keys.js'
import { answerTo, type Batch } from './pipeline.js'
import type { Runtime } from './runtime.js'
import { further } from './scripts/verbs.js'

/** The result of a verb, without the score at which to continue; this function does the continuing. */
export function toResult({ pipeline, server }: Runtime, keys: Keys, reply: Reply, { broken }: Batch): string {
  // Only a text can say where to continue. Not split: this is on the path of every release.
  const text = String(reply)
  const space = typeof reply === 'string' ? reply.indexOf(' ') : -1
  const result = space < 0 ? text : text.slice(0, space)
  const from = space < 0 ? undefined : text.slice(space + 1)
  const unknown = server.known(pipeline.epoch)
  // The server may have restarted: a request with its former identity granted nothing.
  if (unknown !== undefined || broken)
    void Promise.resolve(unknown).then(() => continueSteps(pipeline, keys, '0'), ignore)
  else if (from !== undefined) void continueSteps(pipeline, keys, from)
  return result
}

/** Continues from a score of the queue. */
export async function continueSteps(link: Runtime['pipeline'], keys: Keys, first: string): Promise<void> {
  for (let from = first; from !== ''; ) {
    const answer = await answerTo(link, further, keys, [from]).catch(ignore)
    from = answer === undefined ? '' : String(answer[0])
  }
}

/** Another process continues. */
function ignore(): undefined {
  return undefined
}
