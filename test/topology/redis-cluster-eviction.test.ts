// A Cluster of which one master may evict locks in use (H21): its locks are refused, whatever master the client asked first, and no others.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, beforeEach, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { type RedisOptions, redis } from '../../src/drivers/redis/index.js'
import type { Place } from '../drivers/redis/support/place.js'
import { type Version, versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-node.js'

// A master that is silent for a while is not replaced.
const cluster = await startCluster({ replicas: 1, nodeTimeout: 60_000 })
after(() => cluster.stop())
const place: Place = { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) }

const policy = (node: RedisServer, name: 'allkeys-lru' | 'noeviction') =>
  node.cli('CONFIG', 'SET', 'maxmemory', '100mb', 'maxmemory-policy', name)
const slotOf = (name: string) => cluster.keySlot(`hf:{${name}}`)
const ownerOf = async (name: string) => cluster.findOwner(await slotOf(name))

beforeEach(async () => {
  for (const node of cluster.nodes) await policy(node, 'noeviction')
})

async function locksOn(t: TestContext, version: Version, options: Partial<RedisOptions>): Promise<Locks> {
  const { client, start, close } = await version.open(place)
  await start()
  const locks = createLocks(redis({ client, quarantine: 'off', ...options }))
  t.after(() => locks.close().then(close))
  return locks
}

/** One name on each master, `evicting` on the one that may evict. */
async function namesFor(prefix: string): Promise<{ evicting: string; others: readonly [string, string] }> {
  const byOwner = new Map<RedisServer, string>()
  for (let n = 0; byOwner.size < 3; n++) byOwner.set(await ownerOf(`${prefix} ${n}`), `${prefix} ${n}`)
  const [evicting = '', one = '', two = ''] = byOwner.values()
  return { evicting, others: [one, two] }
}

const refusal = { code: 'BACKEND', message: /maxmemory-policy allkeys-lru .* set noeviction/ }
const ignored = () => undefined

for (const version of versions) {
  test(`H21: a master that may evict grants nothing, the others do (${version.name})`, async (t) => {
    const { evicting, others } = await namesFor(version.name)
    await policy(await ownerOf(evicting), 'allkeys-lru')
    for (let n = 0; n < 6; n++) {
      const locks = await locksOn(t, version, { eviction: 'refuse' })
      await assert.rejects(locks.mutex(evicting).tryAcquire(), refusal)
      await assert.rejects(locks.mutex(evicting).acquire({ wait: 60_000 }), refusal)
      await assert.rejects(locks.semaphore(`${evicting}`, { permits: 2 }).tryAcquire(), refusal)
      for (const name of others) await locks.mutex(name).run(ignored)
    }
  })

  test(`H21: a policy that changes counts from the next acquire on (${version.name})`, async (t) => {
    const { evicting: name } = await namesFor(`changed ${version.name}`)
    const locks = await locksOn(t, version, { eviction: 'refuse' })
    const held = await locks.mutex(name).acquire()
    await policy(await ownerOf(name), 'allkeys-lru')
    await held.extend()
    assert.equal(await held.release(), 'released')
    await assert.rejects(locks.mutex(name).tryAcquire(), refusal)
    await policy(await ownerOf(name), 'noeviction')
    await locks.mutex(name).run(ignored)
  })

  test(`H21: a slot that moves to a master that may evict, and a promoted replica that may (${version.name})`, async (t) => {
    const { evicting: name, others } = await namesFor(`moved ${version.name}`)
    const locks = await locksOn(t, version, { eviction: 'refuse' })
    await locks.mutex(name).run(ignored)
    const to = await ownerOf(others[0])
    await policy(to, 'allkeys-lru')
    await cluster.migrateSlot(await slotOf(name), to)
    await assert.rejects(locks.mutex(name).acquire({ wait: 60_000 }), refusal)

    await policy(to, 'noeviction')
    await locks.mutex(name).run(ignored)
    const replica = await replicaOf(to)
    await policy(replica, 'allkeys-lru')
    await cluster.failOver(replica)
    await cluster.settled()
    await assert.rejects(locks.mutex(name).acquire({ wait: 60_000 }), refusal)
  })

  test(`H21: a master that is silent keeps no lock of another from being granted (${version.name})`, async (t) => {
    const { evicting: name, others } = await namesFor(`silent ${version.name}`)
    const locks = await locksOn(t, version, { eviction: 'refuse', commandTimeout: 60_000 })
    for (const one of [name, ...others]) await locks.mutex(one).run(ignored)
    const fresh = await locksOn(t, version, { eviction: 'refuse', commandTimeout: 60_000 })
    const [owner, silent] = [await ownerOf(name), await ownerOf(others[0])]
    silent.pause()
    try {
      for (const one of [locks, fresh])
        assert.ok(
          await one
            .mutex(others[1])
            .tryAcquire()
            .then((lease) => lease?.release()),
        )
      await policy(owner, 'allkeys-lru')
      for (const one of [locks, fresh]) await assert.rejects(one.mutex(name).tryAcquire(), refusal)
    } finally {
      silent.resume()
    }
    await cluster.settled()
  })
}

test('H21: so it is with the quarantine', async (t) => {
  const version = versions.at(-1)
  assert.ok(version)
  const { evicting, others } = await namesFor('strict')
  const locks = await locksOn(t, version, { eviction: 'refuse', quarantine: 'strict', maxTtl: 1_000 })
  for (const name of [evicting, ...others]) await locks.mutex(name).run(ignored, { ttl: 1_000, wait: 60_000 })
  await policy(await ownerOf(evicting), 'allkeys-lru')
  await assert.rejects(locks.mutex(evicting).tryAcquire({ ttl: 1_000 }), refusal)
  for (const name of others) await locks.mutex(name).run(ignored, { ttl: 1_000, wait: 60_000 })
})

async function replicaOf(master: RedisServer): Promise<RedisServer> {
  for (const node of cluster.nodes) {
    const info = String(await node.cli('INFO', 'replication'))
    if (info.includes('role:slave') && info.includes(`master_port:${master.port}\r`)) return node
  }
  throw new Error(`port ${master.port} has no replica`)
}

after(leakCheck)
