/** Rung 5: a process remembers, per call chain, what it already holds, and does not ask the server for it again. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { RedisServer } from '../../test/support/servers/redis.js'
import { until } from '../../test/support/until.js'
import { watchdog } from './4-watchdog.js'
import { asked, listening, openStage, patience } from './environment.js'
import { type Lock, type Recipe, type Scene, single, take } from './lock.js'

export const reentrant: Recipe = single('reentrant', (client) => enterAgain(watchdog.open(client)))

/** Node has no threads to distinguish; `AsyncLocalStorage` knows the call chain to which code belongs. */
export function enterAgain(lock: Lock): Lock {
  const holding = new AsyncLocalStorage<ReadonlySet<string>>()
  return {
    ...lock,
    async run(name, ttl, wait, work) {
      const held = holding.getStore() ?? new Set()
      if (!held.has(name)) {
        return lock.run(name, ttl, wait, () => holding.run(new Set([...held, name]), work))
      }
      await work()
      return true
    },
  }
}

const waiters = 8

/** Resolves when all waiters that can be notified have subscribed and nobody polls any more, or when nobody subscribes at all. */
async function told(server: RedisServer): Promise<void> {
  const began = performance.now()
  let [last, since] = [-1, began]
  await until(
    async () => {
      const [now, ears] = [await asked(server), await listening(server)]
      if (now !== last) [last, since] = [now, performance.now()]
      if (ears === 0) return performance.now() - began > 3_000
      return ears === waiters && performance.now() - since > 400
    },
    { within: patience },
  )
}

export const polling: Scene = {
  name: 'polling',
  fault: `${waiters} processes wait for a lock that stays taken. What does one second of it cost the server?`,

  async run(recipe) {
    await using stage = await openStage(recipe)
    const { server } = stage
    const holder = await stage.process()
    const others = await Promise.all(Array.from({ length: waiters }, () => stage.process()))

    const held = await take(holder.lock, 30_000)
    const before = await asked(server)
    const waiting = others.map(async ({ lock }) => {
      const mine = await lock.acquire('order:7', 30_000, patience)
      await mine?.release()
    })
    await until(async () => (await asked(server)) >= before + waiters, { within: patience })
    await told(server)
    const [since, from] = [await asked(server), performance.now()]
    // Each may poll once within three seconds, or subscribe late on a busy machine. A polling waiter sends more.
    const often = 6 * waiters
    let cost = 0
    const enough = async () => {
      cost = (await asked(server)) - since
      return cost >= often || performance.now() - from >= 3_000
    }
    await until(enough, { within: patience })
    const each = Math.round((cost / (performance.now() - from)) * 1_000)
    await held.release()
    await Promise.all(waiting)

    return { ok: cost < often, saw: `${waiters} waiters asked ${each} times in a second, in vain` }
  },
}
