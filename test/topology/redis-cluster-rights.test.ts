// An account that may not ask a node of a Cluster what the quarantine depends on is refused, or waits; it is never granted at once what the node may
// have forgotten.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { type RedisClient, type RedisOptions, redis } from '../../src/drivers/redis/index.js'
import { leakCheck } from '../support/leaks.js'
import { type ClusterSetup, startCluster } from '../support/servers/redis-cluster.js'
import { until } from '../support/until.js'

const ttl = 3_000
const [cluster, bare] = await Promise.all([
  startCluster(),
  startCluster({ args: ['--rename-command', 'INFO', ''] }),
])
after(() => Promise.all([cluster.stop(), bare.stop()]))

const password = 'secret'
const libraries = ['ioredis', 'node-redis'] as const
type Library = (typeof libraries)[number]

interface Opened {
  readonly client: RedisClient
  close(): unknown
}

async function open(library: Library, setup: ClusterSetup, username: string): Promise<Opened> {
  if (library === 'ioredis') {
    const redisOptions = { username, password, enableReadyCheck: false, disconnectTimeout: 100 }
    const client = new Cluster([...setup.addresses], { enableReadyCheck: false, redisOptions })
    client.on('error', () => undefined)
    return { client, close: () => client.disconnect() }
  }
  const rootNodes = setup.addresses.map((socket) => ({ socket }))
  const client = createCluster({ rootNodes, defaults: { username, password } })
  client.on('error', () => undefined)
  await client.connect()
  return { client, close: () => client.destroy() }
}

/** An account on every node, with all rights but these. */
async function account(setup: ClusterSetup, name: string, ...rules: string[]): Promise<void> {
  for (const node of setup.nodes)
    await node.cli(
      ...['ACL', 'SETUSER', name, 'reset', 'on', `>${password}`, '~hf:*', '&hf:*', '+@all'],
      ...rules,
    )
}

async function locksOf(
  t: TestContext,
  library: Library,
  setup: ClusterSetup,
  user: string,
  options: Partial<RedisOptions> = {},
): Promise<Locks> {
  const { client, close } = await open(library, setup, user)
  const locks = createLocks(redis({ client, maxTtl: ttl, ...options }), { ttl })
  t.after(() => locks.close().then(close))
  return locks
}

const refusal = (error: Error & { code?: string }) => {
  assert.equal(error.code, 'BACKEND')
  assert.match(error.message, /may not run INFO.*\+info.*quarantine: 'off'/)
  return true
}

for (const library of libraries) {
  test(`an account without INFO is refused, with the remedy; its holds are renewed and released (${library})`, async (t) => {
    await account(cluster, 'app')
    await account(cluster, 'blind', '-info')
    const name = `blind ${library}`
    const [a, b] = [await locksOf(t, library, cluster, 'app'), await locksOf(t, library, cluster, 'blind')]
    const held = await a.mutex(name).acquire({ wait: 20_000 })
    const owner = await cluster.findOwner(await cluster.keySlot(`hf:{${name}}`))
    await owner.cli('DEL', `hf:{${name}}`)
    await assert.rejects(b.mutex(name).tryAcquire(), refusal)
    await assert.rejects(b.mutex(name).acquire({ wait: 60_000 }), refusal)
    await assert.rejects(b.semaphore(`${name} permits`, { permits: 2 }).tryAcquire(), refusal)
    assert.equal(await held.release(), 'lost')
    const kept = await a.mutex(name).acquire()
    await account(cluster, 'app', '-info')
    await kept.extend()
    assert.equal(await kept.release(), 'released')
    await assert.rejects(a.mutex(name).tryAcquire(), refusal)
    const off = await locksOf(t, library, cluster, 'blind', { quarantine: 'off' })
    const lease = await off.mutex(name).acquire()
    assert.equal(await lease.release(), 'released')
  })

  test(`where INFO does not exist the locks are refused as well (${library})`, async (t) => {
    await account(bare, 'app')
    const locks = await locksOf(t, library, bare, 'app')
    await assert.rejects(locks.mutex('x').tryAcquire(), refusal)
    const off = await locksOf(t, library, bare, 'app', { quarantine: 'off' })
    await off.mutex('x').run(() => undefined)
  })

  test(`an account without CLUSTER NODES, or with INFO of some sections alone, waits for longer, not less (${library})`, async (t) => {
    await account(cluster, 'half', '-cluster|nodes')
    await account(cluster, 'sections', '-info', '+info|replication')
    for (const user of ['half', 'sections']) {
      const name = `${user} ${library}`
      const owner = await cluster.findOwner(await cluster.keySlot(`hf:{${name}}`))
      const locks = await locksOf(t, library, cluster, user)
      const held = await locks.mutex(name).acquire({ wait: 20_000 })
      await owner.cli('FLUSHALL')
      const lost = performance.now()
      // Granted at the first attempt, then only because the time is over already.
      const early = await (await locksOf(t, library, cluster, user)).mutex(name).tryAcquire()
      const next = early ?? (await locks.mutex(name).acquire({ wait: 20_000 }))
      assert.ok(performance.now() - lost > ttl)
      assert.ok(!held.isHeld)
      await next.release()
      await until(
        async () =>
          (await locks
            .mutex(name)
            .tryAcquire()
            .then((lease) => lease?.release())) === 'released',
      )
    }
  })
}

after(leakCheck)
