/** A canary as a driver of the fault lab. The `?` of this module's URL is followed by its name; `control` is the lock without a mistake. */
import { Redis } from 'ioredis'
import { startMany } from '../../test/support/servers/redis.js'
import { lab as redis } from '../faults/drivers/redis.js'
import { openLinks } from '../faults/links.js'
import type { RedisPlace } from '../faults/redis-client.js'
import { flush, harmlessFaults, labServer, restart } from '../faults/redis-servers.js'
import { type Client, type LabDriver, lab as made } from '../faults/store.js'
import type { Breaking } from './clock-token.js'
import { canaries } from './mistakes.js'
import { naiveRedlock } from './naive-redlock.js'
import { control, plainDriver } from './plain-lock.js'

const id = decodeURIComponent(new URL(import.meta.url).search.slice(1))
const canary = canaries[id]

const plain: LabDriver = made({
  about: canary?.mistake ?? 'a plain lock over Redis without a mistake',
  client: (place) => open(place as readonly number[]),
  open: async ({ workers }) => {
    const group = await startMany(canary?.votes === undefined ? 1 : 5, { ...labServer, persistence: 'none' })
    const ports = group.servers.map(({ port }) => port)
    const links = await openLinks(workers, ports)
    return {
      place: (n) => ports.map((port) => links.through(n, port)),
      direct: () => open(ports),
      faults: [
        ...links.faults,
        ...harmlessFaults(group.servers),
        { ...flush(group.servers, 0), weight: 2 },
        {
          ...restart(group.servers, { kind: 'start again without data', keepData: false }),
          lasts: [0.1, 0.2],
        },
      ],
      settles: 2_500,
      check: { falseBusy: false },
      versions: { redis: `${ports.length} × 7` },
      close: async () => {
        await links.close()
        await group.stop()
      },
    }
  },
})

/** The lab of `redis`, with the mistake in the driver that every process gets. */
const broken = (breaking: Breaking): LabDriver => ({
  ...redis,
  about: `${redis.about}; ${canary?.mistake}`,
  client: async (place) => {
    const client = await redis.client(place)
    const beside = new Redis({ ...(place as RedisPlace).hosts[0], retryStrategy: () => 50 })
    beside.on('error', () => undefined)
    return {
      driver: breaking(client.driver, () => readTime(beside)),
      close: () => {
        beside.disconnect()
        return client.close()
      },
    }
  },
})

async function readTime(redis: Redis): Promise<number> {
  const [seconds, micros] = await redis.time()
  return Number(seconds) * 1e6 + Number(micros)
}

export const lab: LabDriver = canary?.breaking ? broken(canary.breaking) : plain

function open(ports: readonly number[]): Client {
  const clients = ports.map((port) => {
    const client = new Redis(port, '127.0.0.1', {
      maxRetriesPerRequest: null,
      retryStrategy: (times) => Math.min(20 * times, 200),
    })
    client.on('error', () => undefined)
    return client
  })
  const [first] = clients
  return {
    driver: (env) =>
      canary?.votes !== undefined
        ? naiveRedlock(clients, canary.votes, env)
        : plainDriver(first as Redis, { ...control, ...canary?.parts }, env),
    close: () => {
      for (const client of clients) client.disconnect()
    },
  }
}
