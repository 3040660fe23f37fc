// An account that may not run a command of the scripts, on the master that Sentinels name and on the nodes of a Cluster. Single servers:
// test/drivers/redis/script-rights.test.ts.
// Second tier because Sentinels and Clusters are topologies of their own, and what a refusal means does not depend on them.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { redis } from '../../src/drivers/redis/index.js'
import type { Place } from '../drivers/redis/support/place.js'
import { versionNamed } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-node.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'

interface Setup {
  readonly place: Place
  readonly nodes: readonly RedisServer[]
  stop(): Promise<void>
}

const setups: Readonly<Record<string, () => Promise<Setup>>> = {
  Sentinel: async () => {
    const setup = await startSentinel({ downAfter: 60_000 })
    const { name, addresses: sentinels, nodes } = setup
    const place: Place = { is: 'sentinel', name, sentinels, ports: nodes.map(({ port }) => port) }
    return { place, nodes, stop: () => setup.stop() }
  },
  Cluster: async () => {
    const cluster = await startCluster()
    const { nodes } = cluster
    return {
      place: { is: 'cluster', ports: nodes.map(({ port }) => port) },
      nodes,
      stop: () => cluster.stop(),
    }
  },
}

const login = { username: 'app', password: 'secret' }
const refusal = { code: 'BACKEND', message: /refused \(NOPERM\).* it needs eval, evalsha/ }

for (const [is, start] of Object.entries(setups)) {
  describe(is, () => {
    let setup: Setup
    before(async () => {
      setup = await start()
    })
    after(() => setup.stop())

    const allow = async (...denied: string[]) => {
      const rules = ['reset', 'on', '>secret', '~hf:*', '&hf:*', '+@all', ...denied.map((name) => `-${name}`)]
      for (const node of setup.nodes) await node.cli('ACL', 'SETUSER', 'app', ...rules)
    }

    for (const version of ['ioredis 6.0.0', 'redis 6.3.1'].map(versionNamed)) {
      test(`an account without a command of the scripts is told which rights it needs (${version.name})`, async (t) => {
        await allow()
        const { client, start, close } = await version.open(setup.place, login)
        const options = { client, commandTimeout: 60_000, maxTtl: 600_000, quarantine: 'off' } as const
        const locks = createLocks(redis(options), { ttl: 600_000 })
        t.after(() => allow().then(() => locks.close().then(close)))
        await start()
        const held = await locks.mutex(`held ${version.name}`).acquire()
        for (const command of ['time', 'hmget']) {
          await allow(command)
          const free = locks.mutex(`free ${version.name}`)
          await assert.rejects(free.acquire({ wait: 600_000 }), refusal)
          await assert.rejects(free.tryAcquire(), refusal)
          await assert.rejects(held.extend(), refusal)
          await assert.rejects(locks.inspect('held'), refusal)
          await assert.rejects(locks.list(), refusal)
        }
        await allow()
        assert.equal(await held.release(), 'released')
      })
    }
  })
}

after(leakCheck)
