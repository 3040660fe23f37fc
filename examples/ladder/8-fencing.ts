/** Rung 8: the lock issues a token with each grant, and the protected resource refuses a token older than the newest it has seen. */
import type { Redis } from 'ioredis'
import { until } from '../../test/support/until.js'
import { openStage, patience } from './environment.js'
import { startHolder } from './holder.js'
import { holdfastRedlock } from './holdfast.js'
import type { Held, Recipe, Scene } from './lock.js'
import { writeIfNewer } from './scripts.js'

export const unfenced: Recipe = { ...holdfastRedlock, title: 'holdfast/redlock, token unused' }
export const fencing: Recipe = { ...holdfastRedlock, title: 'holdfast/redlock, token checked' }

/** The holder's write to the resource, a hash on one of the servers. Only rung 8 passes its token. */
export async function write(
  recipe: Recipe,
  resource: Redis,
  value: string,
  { token }: Held,
): Promise<'written' | 'refused'> {
  if (recipe.title === fencing.title) {
    const done = await resource.eval(writeIfNewer, 1, 'resource', value, String(token))
    return done === 1 ? 'written' : 'refused'
  }
  await resource.hset('resource', 'value', value)
  return 'written'
}

export const pausedHolder: Scene = {
  name: 'paused holder',
  fault:
    'A process makes sure that it holds the lock, stands still (SIGSTOP) for longer than its ttl, goes on and writes.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    const other = await stage.process()
    const resource = other.client

    const ports = stage.servers.map(({ port }) => port)
    await using sleeper = startHolder('pause', recipe, stage.server, ports, 1_000)
    await sleeper.standsStill()
    const held = await until(() => other.lock.tryAcquire('order:7', 30_000), {
      within: patience,
      what: 'the lease of the one who sleeps to end',
    })
    await write(recipe, resource, 'written by the one who holds it', held)
    const late = await sleeper.goOn()

    const kept = (await resource.hget('resource', 'value')) === 'written by the one who holds it'
    return {
      ok: kept,
      saw: kept ? `the late write was ${late}` : 'the late write has replaced the newer one',
    }
  },
}
