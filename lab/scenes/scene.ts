/** A scene: one fault, applied to a plain lock and to holdfast. */
import type { RedisOptions } from '../../test/support/servers/redis.js'
import { type Located, SceneClients } from './clients.js'
import type { Held, Lock, SharedWay, Way } from './lock.js'
import { RedisSceneContext } from './redis-scene.js'
import { elapsed, order, type SceneContext } from './scene-context.js'
import type { Store } from './servers.js'

/** The result with one lock. */
export interface Outcome {
  /** Did the lock do its job? */
  readonly ok: boolean
  /** What was counted, in words. */
  readonly saw: string
}

/** The text on the page. */
interface SceneText {
  /** On the command line. */
  readonly name: string
  readonly title: string
  /** What happens, in one or two sentences. */
  readonly story: string
  /** What holdfast does about it, and its limits. */
  readonly holdfastDoes: string
  /** The heading of docs/hazards.md or another page that says more. */
  readonly page: string
}

/** One of the two locks, and what happens to it. */
export interface Side {
  readonly title: string
  play(place: SceneContext): Promise<Outcome>
}

export interface Scene extends SceneText {
  readonly store: Store
  /** Whose holders are in the picture. Default `order`. */
  readonly lock?: string
  readonly naive: Side
  readonly holdfast: Side
}

/** Applies the same fault to both locks, each on its own Redis servers. */
export interface RedisScene extends SceneText {
  readonly naive: Way
  readonly holdfast: Way
  readonly servers: number
  readonly options?: RedisOptions
  run(stage: RedisSceneContext): Promise<Outcome>
}

export function onRedis({ servers, options, run, ...told }: RedisScene): Scene {
  const side = (way: Way): Side => ({
    title: way.title,
    async play({ history }) {
      await using stage = await RedisSceneContext.open(history, way, servers, options)
      return await run(stage)
    },
  })
  return { ...told, store: 'redis', naive: side(told.naive), holdfast: side(told.holdfast) }
}

/** Applies the same fault to both locks, in a store that other scenes use as well. */
export interface SharedScene<Server extends Located, Way extends SharedWay> extends SceneText {
  readonly store: Store
  readonly naive: Way
  readonly holdfast: Way
  /** Of ZooKeeper: how long sessions last, in ms. */
  readonly session?: number
  server(place: SceneContext): Promise<Server>
  run(competitors: SceneClients<Server, Way>): Promise<Outcome>
}

export function onShared<Server extends Located, Way extends SharedWay>({
  server,
  session,
  run,
  ...told
}: SharedScene<Server, Way>): Scene {
  const side = (way: Way): Side => ({
    title: way.title,
    play: async (place) => run(new SceneClients(place, await server(place), way, session)),
  })
  return { ...told, naive: side(told.naive), holdfast: side(told.holdfast) }
}

/** The first holder, which every scene needs. */
export async function first({ lock }: { readonly lock: Lock }, ttl: number): Promise<Held> {
  const held = await lock.take(order, ttl, 0)
  if (held === undefined) throw new Error('the first holder of the scene did not get the lock')
  return held
}

/**
 * The store lost data while `held` was held: does a second client get the lock while the first still believes that it holds it? If not, when?
 */
export async function secondHolder(held: Held, { lock }: { readonly lock: Lock }): Promise<Outcome> {
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
    : { ok: true, saw: `the next holder ${seconds} s later, after the first one had been notified` }
}

/** Another client has the lock after `held` was cut off: does its holder still believe that it holds it? */
export async function believedBy(held: Held, next: Held | undefined): Promise<Outcome> {
  if (next === undefined) return { ok: false, saw: 'nobody got the lock any more' }
  const both = held.isHeld
  // Long enough to be seen in the picture.
  await elapsed(500)
  await next.release()
  return both
    ? { ok: false, saw: 'B has the lock, and A believes that it has it' }
    : { ok: true, saw: 'B has the lock; A had learned of the loss before' }
}
