import type { Claim, Grant, Wait } from './driver.js'
import type { Engine } from './engine.js'
import { usable } from './grant-freshness.js'
import { Hold } from './hold.js'
import type { LocalQueue } from './local-queue.js'
import type { Terms } from './options.js'
import { held } from './queue-state.js'
import { unusedGrant } from './releases.js'
import { Watchdog } from './watchdog.js'

/**
 * Takes over the grant that another process held, with its token. Undefined: it is no longer held.
 * @param claim has the attempt of that hold; `wait` is a single attempt
 */
export async function adoptGrant(
  engine: Engine,
  claim: Claim,
  token: number,
  terms: Terms,
  wait: Wait,
): Promise<Hold | undefined> {
  const grant = await engine.keepAliveDuring(engine.driver.acquire(claim, wait))
  if (grant === undefined) return undefined
  // Looked up only now: the engine drops a queue that is idle, and close() releases what is in those that it knows.
  return adopt(engine.queue(claim.name), claim, grant, token, terms)
}

async function adopt(
  queue: LocalQueue,
  claim: Claim,
  grant: Grant,
  token: number,
  terms: Terms,
): Promise<Hold | undefined> {
  const { engine } = queue
  let last = grant.token
  // Local hand-overs in the other process have used up part of the reserve.
  while (last < token) last = grant.nextReservedToken?.() ?? Number.POSITIVE_INFINITY
  const now = engine.clock.now()
  if (last !== token || !usable(grant, terms, now) || engine.closed) {
    const unused = unusedGrant(engine, claim, grant)
    return engine.releases.answered(unused, unused.release(), () => undefined)
  }
  const hold = new Hold(queue, new Watchdog(engine, claim, grant, terms, now), token, terms, now)
  held(queue.state, hold)
  engine.events.emit('granted', { ...hold.about(), acquisition: 0, waited: 0, handedOff: false })
  return hold
}
