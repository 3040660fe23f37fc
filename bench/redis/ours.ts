import { createLocks } from 'holdfast'
import { redis } from 'holdfast/redis'
import { redlock } from 'holdfast/redlock'
import { ioredisAt, nodeRedisAt } from './clients.js'
import type { ClientKind, Recipe } from './contender.js'

export function ours(client: ClientKind): Recipe {
  return recipe(client, 'default')
}

/** Strictly first in, first out: every hand-over goes through the server. */
export function oursFair(client: ClientKind): Recipe {
  return recipe(client, 'fair')
}

/** A released lock stays with the process for a minute. */
export function oursLinger(client: ClientKind): Recipe {
  return recipe(client, 'default', 60_000)
}

export const oursMajority: Recipe = {
  name: 'holdfast/redlock',
  settings: 'default',
  client: 'ioredis',
  async make(ports) {
    const clients = ports.map((port) => ioredisAt(port))
    const locks = createLocks(redlock({ clients }), { wait: Number.POSITIVE_INFINITY })
    return {
      gaveUp: 0,
      take: (key) => locks.mutex(key).acquire(),
      async close() {
        await locks.close()
        for (const client of clients) client.disconnect()
      },
    }
  },
}

function recipe(client: ClientKind, settings: 'default' | 'fair', linger = 0): Recipe {
  return {
    name: `holdfast, ${client}`,
    settings,
    client,
    async make([port = 0]) {
      const ends = client === 'ioredis' ? ioredisEnds(port) : await nodeRedisEnds(port)
      const fair = settings === 'fair'
      const wait = Number.POSITIVE_INFINITY
      const locks = createLocks(redis({ client: ends.client }), { fair, wait, linger })
      return {
        gaveUp: 0,
        take: (key) => locks.mutex(key).acquire(),
        keep: (key) => locks.mutex(key).acquire({ ttl: 10_000 }),
        async close() {
          await locks.close()
          await ends.close()
        },
      }
    },
  }
}

function ioredisEnds(port: number) {
  const client = ioredisAt(port)
  return { client, close: async () => void (await client.quit()) }
}

async function nodeRedisEnds(port: number) {
  const client = await nodeRedisAt(port)
  return { client, close: async () => void (await client.close()) }
}
