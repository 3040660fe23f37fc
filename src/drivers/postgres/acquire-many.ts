/**
 * Acquires several claims in one statement. If its answer is lost or no longer awaited, the driver ends every attempt, as if it had waited
 * alone.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { permitLimitError } from '../../core/errors.js'
import type { StatementResult } from './connections.js'
import { toFailure } from './failure.js'
import { Hold } from './hold.js'
import { letters } from './inspect.js'
import type { Runtime } from './runtime.js'

type Granted = readonly ['granted', token: number]

export async function acquireMany(
  runtime: Runtime,
  claims: readonly Claim[],
  wait: Wait,
): Promise<readonly Hold[] | undefined> {
  if (wait.ended) return undefined
  const { connections, calls, subscriber, by } = runtime
  const end = () =>
    Promise.all(claims.map(({ attempt, name, ttl }) => runtime.cancel(attempt, name, ttl, true)))
  const { signal } = wait
  let stop = () => {}
  const over = new Promise<undefined>((resolve) => {
    stop = () => resolve(undefined)
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    const items = JSON.stringify(claims.map(toItem))
    const { channel } = subscriber
    const asked = connections.execute(calls.together, [items, channel, by])
    const result = await Promise.race([asked, over])
    if (result !== undefined) return createGrants(runtime, claims, result, channel !== null)
    await end()
    // The statement was in flight for so long that the server has forgotten that the attempts had ended.
    asked.then(
      ({ answer }) => (answer as readonly unknown[])[0] !== 'none' && void end(),
      () => undefined,
    )
    return undefined
  } catch (error) {
    if (error instanceof RangeError) throw error
    // In the background: a server that left the request unanswered will not answer the cancellation sooner.
    void end()
    throw toFailure(error).error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function toItem({ name, attempt, mode, ttl, note = '' }: Claim): readonly (string | number)[] {
  const [take, of] = mode.kind === 'permits' ? [mode.take, mode.of] : [1, 1]
  return [name, attempt, letters[mode.kind], Math.round(ttl * 1000), take, of, note]
}

/** @throws RangeError when a semaphore has a different limit */
function createGrants(
  runtime: Runtime,
  claims: readonly Claim[],
  { answer, sent }: StatementResult,
  reachable: boolean,
): Hold[] | undefined {
  if ((answer as readonly unknown[])[0] !== 'none') {
    return (answer as readonly Granted[]).map(([, token], i) => {
      const claim = claims[i] as Claim
      const validUntil = deadline(sent, claim.ttl)
      // A notification that others wait may have arrived before this answer and found no hold: assume that others wait.
      return new Hold(runtime, claim, { token, contended: true, validUntil, reachable })
    })
  }
  const [, place, [what, limit]] = answer as readonly ['none', number, readonly [string, number]]
  if (what !== 'limit') return undefined
  const { name, mode } = claims[place - 1] as Claim
  throw permitLimitError(name, limit, mode.kind === 'permits' ? mode.of : 0)
}
