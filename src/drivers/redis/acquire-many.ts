/**
 * Several claims in one step: one script, idempotent like all of them. If its reply may come from another server, the script runs
 * again. If the reply is not "all", or none comes, every attempt is ended, as if it had waited alone.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { permitLimitError } from '../../core/errors.js'
import { toArguments, tombstoneTtl } from './acquire-codec.js'
import type { Reply } from './client.js'
import { toFailure } from './failure.js'
import { Hold } from './hold.js'
import { lockKeys } from './keys.js'
import type { Batch } from './pipeline.js'
import type { Runtime } from './runtime.js'
import { together as script } from './scripts/acquire-many.js'

interface Answer {
  readonly reply: Reply
  readonly flight: Batch
}

export async function acquireMany(
  runtime: Runtime,
  claims: readonly Claim[],
  prefix: string,
  wait: Wait,
): Promise<readonly Hold[] | undefined> {
  const { pipeline } = runtime
  for (const claim of claims) runtime.ensureCompatible(claim.ttl, claim)
  const asked = { once: false }
  // Cancel nothing on a server never asked: it is unknown, and may be one that must not grant to others now what this would free.
  const end = async () => {
    const ended = ({ attempt, name, ttl }: Claim) =>
      runtime.cancel(attempt, lockKeys(prefix, name), ttl, tombstoneTtl)
    if (asked.once) await Promise.all(claims.map(ended))
  }
  try {
    const answer = await orAborted(wait, readAnswer(runtime, claims, prefix, wait, asked))
    if (answer === undefined) {
      await end()
      return undefined
    }
    if (Array.isArray(answer.reply)) return ownGrants(runtime, claims, prefix, answer)
    // A part of an earlier, executed try may be left.
    if (answer.flight.broken) await end()
    // No holder that may be a cache: the core need not look for one.
    if (answer.reply === 'b') wait.report?.({})
    return refused(claims, String(answer.reply))
  } catch (error) {
    if (error instanceof RangeError) throw error
    const failure = toFailure(error, pipeline.connection)
    // In the background: a server that left this unanswered will not answer the cancel sooner. Grants it may have made are ended all the same.
    void end()
    throw failure.error
  }
}

/** The reply of a known server; `broken`: another request was made before. Undefined: the wait was over before a request was made. */
async function readAnswer(
  runtime: Runtime,
  claims: readonly Claim[],
  prefix: string,
  wait: Wait,
  asked: { once: boolean },
): Promise<Answer | undefined> {
  const { pipeline, server, settings } = runtime
  for (let again = false; !wait.ended; again = true) {
    await server.known(pipeline.epoch)
    if (wait.ended) break
    asked.once = true
    const answer = await ask(runtime, claims, prefix)
    const { flight, reply } = answer
    if (reply === 'm') server.changed()
    if (flight.broken || reply === 'm') continue
    if (Array.isArray(reply) && flight.replicas < settings.replicas)
      throw runtime.notEnoughReplicas(flight.replicas)
    if (again) flight.broken = true
    return answer
  }
  return undefined
}

function ask({ pipeline, subscriber }: Runtime, claims: readonly Claim[], prefix: string): Promise<Answer> {
  const keys = claims.flatMap(({ name }) => lockKeys(prefix, name))
  const args = claims.flatMap((claim) => toArguments(claim, true, subscriber.up))
  return new Promise((resolve, reject) => {
    pipeline.ask(script, keys, args, {
      answered: (reply, flight) => resolve({ reply, flight }),
      failed: reject,
    })
  })
}

function ownGrants(
  runtime: Runtime,
  claims: readonly Claim[],
  prefix: string,
  { reply, flight }: Answer,
): Hold[] {
  return claims.map((claim, i) => {
    const [token] = String((reply as readonly Reply[])[i]).split(' ')
    const validUntil = deadline(flight.sent, claim.ttl)
    // "Others wait" may have been pushed before this reply, when nobody here could match it: assume that others wait.
    const proven = { token: Number(token), validUntil, contended: true, reachable: true }
    return new Hold(runtime, claim, lockKeys(prefix, claim.name), proven)
  })
}

/** One of the locks is not free. @throws RangeError when a semaphore has another limit */
function refused(claims: readonly Claim[], reply: string): undefined {
  const [what, at, limit] = reply.split(' ')
  const claim = what === 'l' ? claims[Number(at) - 1] : undefined
  if (claim === undefined) return undefined
  throw permitLimitError(claim.name, Number(limit), claim.mode.kind === 'permits' ? claim.mode.of : 0)
}

async function orAborted<T>(wait: Wait, answer: Promise<T>): Promise<T | undefined> {
  const { signal } = wait
  let stop = () => {}
  const over = new Promise<undefined>((resolve) => {
    stop = () => resolve(undefined)
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([answer, over])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
