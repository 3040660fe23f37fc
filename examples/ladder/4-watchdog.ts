/** Rung 4: while the work goes on, the lease is renewed every third of its ttl. The ttl now only bounds how long the dead hold. */
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { byHand, type Recipe, type Scene, single } from './lock.js'
import { deleteIfMine, extendIfMine } from './scripts.js'
import { openStage } from './stage.js'

export const watchdog: Recipe = single('watchdog', (client) =>
  byHand({
    async tryAcquire(name, ttl) {
      const id = randomUUID()
      if ((await client.set(name, id, 'PX', ttl, 'NX')) === null) return undefined
      const stop = keepAlive(client, name, id, ttl)
      return {
        release: () => {
          stop()
          return client.eval(deleteIfMine, 1, name, id)
        },
      }
    },
  }),
)

/** Renews until it is stopped or the client is closed. */
export function keepAlive(client: Redis, name: string, id: string, ttl: number): () => void {
  // An interval piles up when the machine stands still; the next renewal is set when the last one was answered.
  const renew = async () => {
    await client.eval(extendIfMine, 1, name, id, ttl).catch(() => undefined)
    if (!stopped) timer = setTimeout(renew, ttl / 3)
  }
  let stopped = false
  let timer = setTimeout(renew, ttl / 3)
  const stop = () => {
    stopped = true
    clearTimeout(timer)
    client.off('end', stop)
  }
  client.once('end', stop)
  return stop
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
