/** `redlock()` over five independent servers. Faults affect at most two of them at any time: a minority. */

import { redlock } from 'holdfast/redlock'
import { Redis } from 'ioredis'
import { startMany, startRedis } from '../../../test/support/servers/redis.js'
import { openLinks } from '../links.js'
import { majorityAnswers } from '../redis-answers.js'
import { forgedMessages } from '../redis-forger.js'
import { promoteStale } from '../redis-promotion.js'
import { clockJump, flush, harmlessFaults, labServer, restart } from '../redis-servers.js'
import { type Client, type LabDriver, lab as made } from '../store.js'

interface RedlockPlace {
  readonly ports: readonly number[]
  readonly ttl: number
}

export const lab: LabDriver = made({
  about: 'redlock: five independent Redis servers, ioredis clients in every process',
  client: (place) => open(place as RedlockPlace),
  open: async ({ workers, ttl }) => {
    const group = await startMany(5, { ...labServer, persistence: 'aof-always' })
    const spare = await startRedis()
    const ports = group.servers.map(({ port }) => port)
    const links = await openLinks(workers, ports)
    return {
      place: (n): RedlockPlace => ({ ports: ports.map((port) => links.through(n, port)), ttl }),
      direct: () => open({ ports, ttl }),
      faults: [
        ...links.faults.map((fault) => ({ ...fault, weight: (fault.weight ?? 1) / 2 })),
        ...links.single,
        ...harmlessFaults(group.servers),
        restart(group.servers, { kind: 'kill and start again', keepData: true }),
        // A server that lost its data is excluded for `maxTtl`: one more at the same time still leaves a majority.
        ...[
          restart(group.servers, { kind: 'start again without data', keepData: false, apart: 4 * ttl }),
          flush(group.servers, 4 * ttl),
          promoteStale(group.servers, spare, 4 * ttl),
        ].map((fault) => ({ ...fault, family: 'forgets' })),
        clockJump(group.servers, -1),
        forgedMessages(group.servers),
      ],
      settles: 6 * ttl + 4_000,
      answers: majorityAnswers(group.servers),
      check: { falseBusy: false },
      versions: { redis: 'five servers' },
      close: async () => {
        await links.close()
        await group.stop()
        await spare.stop()
      },
    }
  },
})

function open({ ports, ttl }: RedlockPlace): Client {
  const clients = ports.map((port) => {
    const client = new Redis(port, '127.0.0.1', { retryStrategy: (times) => Math.min(20 * times, 200) })
    client.on('error', () => undefined)
    return client
  })
  return {
    driver: redlock({ clients, maxTtl: 2 * ttl }),
    close: () => {
      for (const client of clients) client.disconnect()
    },
  }
}
