// A lock whose slot is being moved, has moved, or has another master: with and without replicas, with every version of the clients.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { type RedisOptions, redis } from '../../src/drivers/redis/index.js'
import type { Place } from '../drivers/redis/support/place.js'
import { type ClientOptions, type Version, versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import type { RedisServer } from '../support/servers/redis.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { until } from '../support/until.js'

const cluster = await startCluster({ replicas: 1 })
after(() => cluster.stop())
const place: Place = { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) }
/** A process that is paused for a while still gets its answers: every request here must succeed at the first attempt. */
const calm = { quarantine: 'off', commandTimeout: 60_000 } as const

async function locksOn(
  t: TestContext,
  version: Version,
  more: Partial<RedisOptions>,
  group?: ClientOptions,
): Promise<Locks> {
  const { client, start, close } = await version.open(place, {}, group)
  await start()
  const locks = createLocks(redis({ client, ...calm, ...more }))
  t.after(() => locks.close().then(close))
  return locks
}

async function moveOf(name: string) {
  const slot = await cluster.keySlot(`hf:{${name}}`)
  const owner = await cluster.findOwner(slot)
  const masters = await Promise.all(cluster.nodes.map(async (node) => [node, await isMaster(node)] as const))
  const target = masters.find(([node, master]) => master && node !== owner)?.[0]
  assert.ok(target)
  return { slot, owner, target }
}

interface Nodes {
  nodes(role: 'slave'): { disconnect(): void }[]
}

/** Does it tell clients of the replica of each master? */
async function namesReplicas(node: RedisServer): Promise<boolean> {
  const ranges = (await node.cli('CLUSTER', 'SLOTS')) as unknown[][]
  return ranges.every(([, , ...nodes]) => nodes.length === 2)
}

async function isMaster(node: RedisServer): Promise<boolean> {
  return /role:master/.test(String(await node.cli('INFO', 'replication')))
}

/** The one that owns the slot of `name`, and its replica. After a fail-over the old master takes a moment to follow the new one. */
async function pairOf(name: string): Promise<{ owner: RedisServer; replica: RedisServer }> {
  return until(async () => {
    const { owner } = await moveOf(name)
    const id = String(await owner.cli('CLUSTER', 'MYID'))
    const nodes = String(await owner.cli('CLUSTER', 'NODES'))
    const port = Number(new RegExp(`127\\.0\\.0\\.1:(\\d+)\\S* slave ${id}`).exec(nodes)?.[1])
    const replica = cluster.nodes.find((node) => node.port === port)
    return replica && { owner, replica }
  })
}

/** Taken, kept, refused to another and released, at the first attempt. */
async function works(a: Locks, b: Locks, name: string): Promise<void> {
  const lease = await a.mutex(name).acquire({ wait: 3_000 })
  assert.ok((await lease.extend()) > 0)
  assert.equal(await lease.release(), 'released')
  const next = await b.mutex(name).acquire({ wait: 3_000 })
  assert.ok(next.token > lease.token)
  assert.equal(await next.release(), 'released')
}

for (const version of versions.filter(({ places }) => places.includes('cluster'))) {
  for (const replicas of [0, 1]) {
    const label = `${version.name}, replicas: ${replicas}`

    test(`while its slot is being moved, for however long, a lock can be kept, released and acquired (${label})`, async (t) => {
      const [a, b] = [await locksOn(t, version, { replicas }), await locksOn(t, version, { replicas })]
      const name = `moving ${label}`
      const lease = await a.mutex(name).acquire({ ttl: 30_000 })
      const { slot, target } = await moveOf(name)
      const migration = await cluster.beginMigration(slot, target)
      t.after(() => migration.finish().catch(() => undefined))
      assert.ok((await lease.extend()) > 0)
      await migration.moveKeys()
      assert.ok((await lease.extend()) > 0)
      // A shorter term too, and a lease that was shortened is released as any other.
      assert.ok((await lease.extend(20_000)) > 10_000)
      // Who holds it cannot be told now, but it is not granted.
      const refused = b.mutex(name).tryAcquire()
      assert.equal(
        await refused.then(
          (one) => one === undefined,
          (error: Error) => error.name === 'BackendError',
        ),
        true,
      )
      assert.equal(await lease.release(), 'released')
      await works(a, b, name)
      await works(a, b, `never used ${name} {}`)
      await migration.finish()
      await works(a, b, name)
    })
  }

  test(`a lock whose slot has moved is read, renewed, released and acquired by a client that follows no redirection (${version.name})`, async (t) => {
    const stubborn = { maxRedirections: 0, maxCommandRedirections: 0, slotsRefreshInterval: 0 }
    const a = await locksOn(t, version, {}, stubborn)
    const b = await locksOn(t, version, {}, stubborn)
    const name = `moved ${version.name}`
    const lease = await a.mutex(name).acquire({ ttl: 30_000 })
    assert.equal((await b.inspect(name)).holders.length, 1)
    const { slot, target } = await moveOf(name)
    await cluster.migrateSlot(slot, target)
    assert.equal((await b.inspect(name)).holders.length, 1)
    assert.equal(await b.mutex(name).tryAcquire(), undefined)
    assert.ok((await lease.extend()) > 0)
    assert.equal(await lease.release(), 'released')
    await works(a, b, name)
  })

  test(`an agreed fail-over keeps a lease that replicas have, and the lock can be acquired (${version.name})`, async (t) => {
    const [a, b] = [await locksOn(t, version, { replicas: 1 }), await locksOn(t, version, { replicas: 1 })]
    const name = `failing over ${version.name}`
    const lease = await a.mutex(name).acquire({ ttl: 30_000 })
    const { replica } = await pairOf(name)
    await cluster.failOver(replica, 'agreed')
    // The old master has yet to follow the new one: until then no replica acknowledges.
    await until(
      () =>
        lease.extend().then(
          () => true,
          () => false,
        ),
      { within: 10_000 },
    )
    assert.ok(lease.isHeld)
    // While it learns the nodes again, redis 4 fails every command.
    for (const one of [a, b])
      await until(
        () =>
          one.inspect(name).then(
            () => true,
            () => false,
          ),
        { within: 10_000 },
      )
    assert.equal(await b.mutex(name).tryAcquire(), undefined)
    assert.equal(await lease.release(), 'released')
    await works(a, b, name)
  })
}

for (const version of versions.filter(({ library }) => library === 'ioredis')) {
  test(`a lease is renewed while the client loses one replica after the other (${version.name})`, async (t) => {
    await until(async () => (await Promise.all(cluster.nodes.map(namesReplicas))).every(Boolean))
    const { client, start, close } = await version.open(place)
    await start()
    const locks = createLocks(redis({ client, ...calm }))
    t.after(() => locks.close().then(close))
    const name = `losing replicas ${version.name}`
    const lease = await locks.mutex(name).acquire({ ttl: 30_000 })
    // The keys of a slot on its way are found after a third of a second only.
    const { slot, target } = await moveOf(name)
    const migration = await cluster.beginMigration(slot, target)
    t.after(() => migration.finish())
    let lost = 0
    const losing = setInterval(() => {
      const [replica] = (client as unknown as Nodes).nodes('slave')
      replica?.disconnect()
      if (replica) lost++
    }, 20)
    t.after(() => clearInterval(losing))
    assert.ok((await lease.extend()) > 0)
    assert.ok(lost > 0)
    clearInterval(losing)
    assert.equal(await lease.release(), 'released')
  })
}

test('a request before the client knows a node of the Cluster waits for one, and the process keeps running', async (t) => {
  for (const version of versions) {
    if (!version.places.includes('cluster')) continue
    const { client, start, close } = await version.open(place)
    const locks = createLocks(redis({ client, ...calm }))
    t.after(() => locks.close().then(close))
    const starting = start()
    const lease = await locks.mutex(`early ${version.name}`).acquire({ wait: 60_000 })
    await starting
    assert.equal(await lease.release(), 'released')
  }
})

after(leakCheck)
