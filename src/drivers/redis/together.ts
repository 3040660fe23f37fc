/**
 * Several claims in one step: one script, idempotent like all of them. Where its answer may be that of another server it is asked again; where
 * the answer is not "all", or none comes, every attempt is ended, as if it had waited alone.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { permitLimitError } from '../../core/errors.js'
import { argsOf } from './ask.js'
import type { Reply } from './client.js'
import type { Desk } from './desk.js'
import { Hold } from './hold.js'
import { keysOf } from './keys.js'
import type { Flight } from './link.js'
import { together as script } from './scripts/together.js'
import { troubleOf } from './trouble.js'
import { ghostFor } from './waiter.js'

interface Answer {
  readonly reply: Reply
  readonly flight: Flight
}

export async function takeTogether(
  desk: Desk,
  claims: readonly Claim[],
  prefix: string,
  wait: Wait,
): Promise<readonly Hold[] | undefined> {
  const { link } = desk
  for (const { ttl } of claims) desk.stretch(ttl)
  const asked = { once: false }
  // Of a server that was never asked nothing is known, and it may be one that must not grant to others now what this would free.
  const end = async () => {
    const ended = ({ attempt, name, ttl }: Claim) => desk.cancel(attempt, keysOf(prefix, name), ttl, ghostFor)
    if (asked.once) await Promise.all(claims.map(ended))
  }
  try {
    const answer = await unlessOver(wait, answerTo(desk, claims, prefix, wait, asked))
    if (answer === undefined) {
      await end()
      return undefined
    }
    if (Array.isArray(answer.reply)) return heldBy(desk, claims, prefix, answer)
    // Of an earlier try that was carried out, a part may be left.
    if (answer.flight.broken) await end()
    return refused(claims, String(answer.reply))
  } catch (error) {
    if (error instanceof RangeError) throw error
    const trouble = troubleOf(error, link.connection.ended)
    // In the background: a server that left this unanswered will not answer that sooner. What it may have granted is ended all the same.
    void end()
    throw trouble.error
  }
}

/** The answer of a server that is known; `broken`: one was asked before it. Undefined: the wait was over before it was asked. */
async function answerTo(
  desk: Desk,
  claims: readonly Claim[],
  prefix: string,
  wait: Wait,
  asked: { once: boolean },
): Promise<Answer | undefined> {
  const { link, server, settings } = desk
  for (let again = false; !wait.over; again = true) {
    await server.known(link.epoch)
    if (wait.over) break
    asked.once = true
    const answer = await ask(desk, claims, prefix)
    server.answered()
    const { flight, reply } = answer
    if (flight.broken) continue
    if (Array.isArray(reply) && flight.replicas < settings.replicas) throw desk.tooFew(flight.replicas)
    if (again) flight.broken = true
    return answer
  }
  return undefined
}

function ask({ link, ear, settings }: Desk, claims: readonly Claim[], prefix: string): Promise<Answer> {
  const keys = claims.flatMap(({ name }) => keysOf(prefix, name))
  const args = claims.flatMap((claim) => argsOf(claim, 1, true, ear.up, settings.claim))
  return new Promise((resolve, reject) => {
    link.ask(script, keys, args, { answered: (reply, flight) => resolve({ reply, flight }), failed: reject })
  })
}

function heldBy(desk: Desk, claims: readonly Claim[], prefix: string, { reply, flight }: Answer): Hold[] {
  return claims.map((claim, i) => {
    const [token] = String((reply as readonly Reply[])[i]).split(' ')
    const validUntil = deadline(flight.sent, claim.ttl)
    // That others wait may have been pushed before this answer, when nobody here knew what it was about: they are taken to wait.
    const proven = { token: Number(token), validUntil, contended: true, reachable: true }
    return new Hold(desk, claim, keysOf(prefix, claim.name), proven)
  })
}

/** One is not free. @throws RangeError when a semaphore has another limit */
function refused(claims: readonly Claim[], reply: string): undefined {
  const [what, at, limit] = reply.split(' ')
  const claim = what === 'l' ? claims[Number(at) - 1] : undefined
  if (claim === undefined) return undefined
  throw permitLimitError(claim.name, Number(limit), claim.mode.kind === 'permits' ? claim.mode.of : 0)
}

async function unlessOver<T>(wait: Wait, answer: Promise<T>): Promise<T | undefined> {
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
