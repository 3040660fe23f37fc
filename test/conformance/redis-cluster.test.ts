// The suite every driver passes, on a Redis Cluster and a Valkey Cluster.
// Second tier because redis.test.ts shows the same on a single server, and topology/ what is special about a Cluster.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/redis/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { connectionOnly, withoutPrimitives } from './parts.js'

for (const [flavour, library] of [
  ['redis7', 'ioredis'],
  ['valkey8', 'node-redis'],
] as const) {
  const cluster = await startCluster({ flavour })
  const place = { is: 'cluster', ports: cluster.masters.map(({ port }) => port) } as const
  const { fixture, close } = await fixtureOf(`redis (cluster of ${flavour}, ${library})`, library, place, {
    stop: () => {
      for (const node of cluster.masters) node.pause()
    },
    heal: () => {
      for (const node of cluster.masters) node.resume()
    },
    async loseHold(name) {
      const key = `hf:{${name}}`
      await (await cluster.findOwner(await cluster.keySlot(key))).cli('DEL', key)
    },
  })
  conformance(library === 'ioredis' ? withoutPrimitives : connectionOnly, {
    ...fixture,
    ...hasColumn('redis (Cluster)'),
  })
  after(async () => {
    await close()
    await cluster.stop()
  })
}

after(leakCheck)
