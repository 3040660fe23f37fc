/** `redis()` on a Cluster of three masters without replicas: there is no fail-over. */

import { startCluster } from '../../../test/support/servers/redis-cluster.js'
import { until } from '../../../test/support/until.js'
import { openLinks } from '../links.js'
import { clusterAnswers } from '../redis-answers.js'
import { natMap, openRedis, type RedisPlace } from '../redis-client.js'
import { forgedMessages } from '../redis-forger.js'
import { clocksBack, harmlessFaults, labServer, restart } from '../redis-servers.js'
import { type Fault, type LabDriver, lab as made } from '../store.js'

export const lab: LabDriver = made({
  about: 'redis: a Cluster of three masters, an ioredis client in every process',
  client: (place) => openRedis(place as RedisPlace),
  open: async ({ workers, ttl }) => {
    const setup = await startCluster({ ...labServer, persistence: 'aof-always', nodeTimeout: 30_000 })
    const ports = setup.nodes.map(({ port }) => port)
    const links = await openLinks(workers, ports)
    const place = (more: Partial<RedisPlace>): RedisPlace => ({
      is: 'cluster',
      hosts: setup.addresses,
      options: { maxTtl: ttl },
      ...more,
    })
    const names = ['ledger', 'stock', 'mail', 'queue', 'page', 'seats', 'report', 'archive']
    // Asked before any fault: the node that is asked may just be killed.
    const slots = await Promise.all(names.map((name) => setup.keySlot(`hf:{${name}}`)))
    const finished = async (slot: number, to: (typeof setup.masters)[number]): Promise<void> => {
      const moved = () =>
        setup.migrateSlot(slot, to).then(
          () => true,
          () => false,
        )
      await until(moved, { within: 20_000, every: 100, what: `slot ${slot} to be moved` })
    }
    const migrate: Fault = {
      kind: 'move a slot',
      subjects: ['slots'],
      weight: 4,
      lasts: [0.2, 1],
      begin: async ({ amount }) => {
        const slot = slots[Math.floor(amount * slots.length)] ?? 0
        const known = () => setup.findOwner(slot).catch(() => undefined)
        const owner = await until(known, {
          within: 20_000,
          every: 100,
          what: `the owner of slot ${slot} to be up`,
        })
        const others = setup.masters.filter((node) => node !== owner)
        const to = others[Math.floor(amount * 1_000) % others.length]
        // If a node is down, the move stops half-way, which is a fault of its own; it is completed later.
        if (to !== undefined) await finished(slot, to)
        return undefined
      },
    }
    const halfWay: Fault = {
      kind: 'a slot move is interrupted',
      subjects: ['slots'],
      weight: 3,
      lasts: [0.5, 4],
      begin: async ({ amount }) => {
        const slot = slots[Math.floor(amount * slots.length)] ?? 0
        const owner = await setup.findOwner(slot).catch(() => undefined)
        const others = setup.masters.filter((node) => node !== owner && node.running)
        const to = others[Math.floor(amount * 1_000) % others.length]
        if (owner === undefined || to === undefined) return undefined
        await setup.beginMigration(slot, to).catch(() => undefined)
        return () => finished(slot, to)
      },
    }
    return {
      place: (n) => place({ through: natMap(ports, (port) => links.through(n, port)) }),
      direct: () => openRedis(place({})),
      faults: [
        ...links.faults,
        ...harmlessFaults(setup.nodes),
        restart(setup.nodes, { kind: 'kill and start again', keepData: true }),
        // Together: a slot that moves to a node whose clock is ahead ends leases early (docs/drivers/redis.md).
        clocksBack(setup.nodes),
        migrate,
        halfWay,
        forgedMessages(setup.nodes),
      ],
      settles: 6 * ttl + 6_000,
      answers: clusterAnswers(setup.nodes),
      check: { falseBusy: { lag: 3 * ttl + 2_000 } },
      versions: { redis: 'three masters' },
      close: async () => {
        await links.close()
        await setup.stop()
      },
    }
  },
})
