/** `redis()` on a master and a replica watched by three Sentinels: promotions with everything copied, and with the newest writes lost. */
import { startSentinel } from '../../../test/support/servers/redis-sentinel.js'
import { openLinks } from '../links.js'
import { natMap, openRedis, type RedisPlace } from '../redis-client.js'
import { harmlessFaults, labServer, subjectsOf } from '../redis-servers.js'
import { type Fault, type LabDriver, lab as made } from '../store.js'

export const lab: LabDriver = made({
  about: 'redis: a master, a replica and three Sentinels, an ioredis client in every process',
  client: (place) => openRedis(place as RedisPlace),
  open: async ({ workers, ttl }) => {
    const setup = await startSentinel({ ...labServer, persistence: 'aof-everysec', downAfter: 500 })
    const ports = setup.nodes.map(({ port }) => port)
    const links = await openLinks(workers, ports)
    const place = (more: Partial<RedisPlace>): RedisPlace => ({
      is: 'sentinel',
      hosts: setup.addresses,
      master: setup.name,
      options: { maxTtl: ttl },
      ...more,
    })
    const promotion = (kind: string, sync: boolean, how: 'kill' | 'freeze'): Fault => ({
      kind,
      subjects: ['master'],
      // It kills, freezes and wakes servers itself.
      also: subjectsOf(setup.nodes),
      lasts: [2, 3],
      apart: 6_000,
      begin: async () => {
        const old = setup.master()
        await setup.promote({ sync, how })
        // The old one comes back: as a replica, once it has heard.
        if (how === 'kill') await old.restart()
        else old.resume()
        return undefined
      },
    })
    const twoMasters: Fault = {
      ...promotion('promote while the old master is frozen', false, 'freeze'),
      excuses: [
        {
          rules: ['exclusion', 'read-write', 'permits', 'tokens'],
          within: 2 * ttl + 2_000,
          why: 'an old master that wakes up goes on granting until it hears that it is none, each with tokens of its own (docs/drivers/redis.md)',
        },
      ],
    }
    return {
      place: (n) => place({ through: natMap(ports, (port) => links.through(n, port)) }),
      direct: () => openRedis(place({})),
      faults: [
        ...links.faults.map((fault) => ({ ...fault, weight: (fault.weight ?? 1) / 2 })),
        // Short ones only: a master that is silent for longer is replaced.
        ...harmlessFaults(setup.nodes).map((fault) => ({
          ...fault,
          weight: (fault.weight ?? 1) / 2,
          lasts: [0.02, 0.2] as const,
        })),
        promotion('promote the replica', true, 'kill'),
        promotion('promote a replica that lacks the newest writes', false, 'kill'),
        twoMasters,
      ],
      settles: 6 * ttl + 8_000,
      check: { falseBusy: false },
      versions: { redis: 'a master and a replica' },
      close: async () => {
        await links.close()
        await setup.stop()
      },
    }
  },
})
