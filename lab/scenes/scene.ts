/** A scene: one thing that happens to a lock, done to whichever lock is given. */
import type { RedisOptions } from '../../test/support/servers/redis.js'
import type { Held, Way } from './lock.js'
import { elapsed, type Player, type Stage } from './stage.js'

/** What came of it with one lock. */
export interface Outcome {
  /** Did the lock do what one takes a lock for? */
  readonly ok: boolean
  /** What was counted, in words. */
  readonly saw: string
}

export interface Scene {
  /** On the command line. */
  readonly name: string
  readonly title: string
  /** What happens, in one or two sentences. */
  readonly story: string
  /** What holdfast does about it, and where it ends. */
  readonly holdfastDoes: string
  /** The heading of docs/hazards.md or another page where more is said. */
  readonly page: string
  readonly naive: Way
  readonly holdfast: Way
  readonly servers: number
  readonly options?: RedisOptions
  run(stage: Stage): Promise<Outcome>
}

export const order = 'order:7'

/** Without which there is no scene. */
export async function first({ lock }: Player, ttl: number): Promise<Held> {
  const held = await lock.take(order, ttl, 0)
  if (held === undefined) throw new Error('the first holder of the scene did not get the lock')
  return held
}

/**
 * Something was forgotten while `held` was out: is it given to a second one while the first believes in it? If not, when?
 */
export async function secondHolder(held: Held, { lock }: Player): Promise<Outcome> {
  const since = performance.now()
  const atOnce = await lock.take(order, 3_000, 0)
  if (atOnce !== undefined) {
    // Long enough to be seen in the picture.
    await elapsed(500)
    await atOnce.release()
    return { ok: !held.isHeld, saw: 'a second holder at once' }
  }
  const later = await lock.take(order, 3_000, 20_000)
  const believes = held.isHeld
  const seconds = ((performance.now() - since) / 1000).toFixed(1)
  await elapsed(500)
  await later?.release()
  if (later === undefined) return { ok: false, saw: 'nobody got the lock any more' }
  return believes
    ? { ok: false, saw: `a second holder after ${seconds} s, while the first one believed in it` }
    : { ok: true, saw: `the next holder ${seconds} s later, when the first one had been told` }
}
