/** Rung 4: while the work continues, the lease is renewed every third of its ttl. The ttl now only limits how long a dead holder blocks others. */
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { openStage } from './environment.js'
import { byHand, type Recipe, type Scene, single } from './lock.js'
import { deleteIfMine, extendIfMine } from './scripts.js'

export const watchdog: Recipe = single('watchdog', (client) => {
  const renewals = renewalsOver(client)
  return byHand({
    async tryAcquire(name, ttl) {
      const id = randomUUID()
      if ((await client.set(name, id, 'PX', ttl, 'NX')) === null) return undefined
      renewals.start(name, id, ttl)
      return {
        release: () => {
          renewals.stop(id)
          return client.eval(deleteIfMine, 1, name, id)
        },
      }
    },
    close: async () => renewals.stopAll(),
  })
})

export interface Renewals {
  start(name: string, id: string, ttl: number): void
  stop(id: string): void
  stopAll(): void
}

export function renewalsOver(client: Redis): Renewals {
  const timers = new Map<string, NodeJS.Timeout>()
  const start = (name: string, id: string, ttl: number) => {
    // Not an interval, whose requests pile up when the machine is paused: the next timer is set after the reply.
    const renew = async () => {
      await client.eval(extendIfMine, 1, name, id, ttl).catch(() => undefined)
      if (timers.has(id)) start(name, id, ttl)
    }
    timers.set(id, setTimeout(renew, ttl / 3))
  }
  const stop = (id: string) => {
    clearTimeout(timers.get(id))
    timers.delete(id)
  }
  return { start, stop, stopAll: () => [...timers.keys()].forEach(stop) }
}

export const reentry: Scene = {
  name: 're-entry',
  fault:
    'While it holds the lock, a function calls another one that takes the same lock, and is ready to wait 3 s for it.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    const { lock } = await stage.process()

    const saveOrder = () => lock.run('order:7', 2_000, 3_000, async () => undefined)
    let saved = false
    await lock.run('order:7', 2_000, 0, async () => {
      saved = await saveOrder()
    })

    return saved
      ? { ok: true, saw: 'entered again and left again' }
      : { ok: false, saw: 'waited 3 s for itself, in vain, and kept the lock alive meanwhile' }
  },
}
