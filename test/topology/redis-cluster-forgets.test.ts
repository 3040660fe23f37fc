// A node of a Cluster that may have forgotten locks (FLUSHALL, older data, a promotion) grants nothing until they have expired, whoever asks; one that
// has forgotten nothing, or got a slot from another, grants at once.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from '../../src/create-locks.js'
import type { RedisOptions } from '../../src/drivers/redis/index.js'
import { slotMarkerKey, slotTag } from '../../src/drivers/redis/keys.js'
import { driverOn, type Library, open, type Place } from '../drivers/redis/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import type { RedisServer } from '../support/servers/redis.js'
import { type ClusterSetup, startCluster } from '../support/servers/redis-cluster.js'
import { settled } from '../support/servers/redis-migration.js'
import { until } from '../support/until.js'

const ttl = 3_000
const [alone, replicated] = await Promise.all([
  startCluster({ masters: 4, persistence: 'rdb' }),
  // They replace a master only when told to.
  startCluster({ masters: 4, replicas: 1, nodeTimeout: 60_000 }),
])
after(() => Promise.all([alone.stop(), replicated.stop()]))

/** A process that comes now. It has no lock yet, but a connection to every node. */
async function newcomer(
  t: TestContext,
  cluster: ClusterSetup,
  library: Library,
  options: Partial<RedisOptions> = {},
): Promise<Locks> {
  const ports = cluster.nodes.filter(({ running }) => running).map(({ port }) => port)
  const place: Place = { is: 'cluster', ports }
  const settings = { quarantine: 'strict', maxTtl: ttl, ...options } as const
  const locks = createLocks(driverOn(open(library, place), settings), { ttl: settings.maxTtl })
  t.after(() => locks.close())
  assert.equal((await locks.inspect('nobody holds this')).holders.length, 0)
  return locks
}

const slotOf = (cluster: ClusterSetup, name: string) => cluster.keySlot(`hf:{${name}}`)

/** Names in different slots of one node. */
async function namesOn(cluster: ClusterSetup, node: RedisServer | undefined, label: string, many: number) {
  const names = new Map<number, string>()
  for (let n = 0; names.size < many; n++) {
    const slot = await slotOf(cluster, `${label} ${n}`)
    if ((await cluster.findOwner(slot)) === node) names.set(slot, `${label} ${n}`)
  }
  return [...names.values()]
}

/** Up for so long that they can have forgotten nothing that counts. */
async function old(cluster: ClusterSetup): Promise<void> {
  const up = async (node: RedisServer) =>
    Number(/uptime_in_seconds:(\d+)/.exec(String(await node.cli('INFO', 'server')))?.[1]) * 1_000
  for (const node of cluster.nodes.filter(({ running }) => running))
    await until(async () => (await up(node)) > ttl + 1_000)
}

/** Says why, and is granted when the lease that the node has lost has ended; not before. */
async function waits(locks: Locks, name: string, lost: number): Promise<void> {
  const lock = locks.mutex(name)
  // A server that is silent for that long cannot say why.
  const silent = (error: Error & { code?: string }) =>
    error.code === 'UNAVAILABLE' && !/quarantine/.test(error.message)
  const told = await until(() =>
    lock.acquire({ wait: 1_000 }).catch((error: Error) => !silent(error) && error.message),
  )
  if (typeof told === 'string') assert.match(told, /quarantine until/)
  const second = typeof told === 'string' ? await lock.acquire({ wait: 30_000 }) : told
  const passed = Math.round(performance.now() - lost)
  assert.ok(passed > ttl, `granted ${passed} ms after the loss`)
  await second.release()
}

/** Each is granted at the first attempt. */
async function atOnce(locks: Locks, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const lease = await locks.mutex(name).tryAcquire()
    assert.ok(lease, `${name} is not granted`)
    await lease.release()
  }
}

for (const [i, library] of (['ioredis', 'node-redis'] as const).entries()) {
  test(`H22 in a Cluster: after FLUSHALL a node grants nothing it may have forgotten, once for all its slots (${library})`, async (t) => {
    await old(alone)
    const node = alone.masters[i]
    const [held = '', used = '', ...unused] = await namesOn(alone, node, 'flushed', 12)
    const [a, b] = [await newcomer(t, alone, library), await newcomer(t, alone, library)]
    await atOnce(a, [used])
    const first = await a.mutex(held).acquire()
    const lost = performance.now()
    await node?.cli('FLUSHALL')
    await atOnce(b, await namesOn(alone, alone.masters[2], `elsewhere ${library}`, 1))
    await waits(b, held, lost)
    assert.ok(!first.isHeld)
    // The quarantine of the others began with it, and is over. So is that of later processes.
    await atOnce(b, [used, ...unused])
    await atOnce(await newcomer(t, alone, library), [held, used])
  })

  test(`H16 in a Cluster: a node that restarts with older data does not grant locks that look free to it (${library})`, async (t) => {
    await old(alone)
    const node = alone.masters[2 + i]
    const [name = ''] = await namesOn(alone, node, 'older', 1)
    const a = await newcomer(t, alone, library)
    await atOnce(a, [name])
    await node?.cli('SAVE')
    const first = await a.mutex(name).acquire()
    const lost = performance.now()
    await node?.kill9()
    await node?.restart()
    for (const node of alone.nodes)
      await until(async () => String(await node.cli('CLUSTER', 'INFO')).includes('cluster_state:ok'))
    await waits(await newcomer(t, alone, library), name, lost)
    assert.ok(!first.isHeld)
  })

  test(`H18 in a Cluster: a promoted replica grants nothing it may not have received, once for all its slots (${library})`, async (t) => {
    await old(replicated)
    const [owner, replica] = [replicated.masters[i], replicated.replicas[i]]
    assert.ok(owner && replica)
    const [free = '', unknown = '', ...unused] = await namesOn(replicated, owner, 'promoted', 12)
    const a = await newcomer(t, replicated, library)
    await atOnce(a, [free])
    assert.equal(await owner.cli('WAIT', 1, 10_000), 1)
    replica.pause()
    await owner.cli('CLIENT', 'KILL', 'TYPE', 'replica')
    const first = [await a.mutex(free).acquire(), await a.mutex(unknown).acquire()]
    const lost = performance.now()
    await owner.kill9()
    replica.resume()
    await replicated.failOver(replica, 'takeover')
    const others = replicated.nodes.filter(({ running }) => running)
    await settled(await slotOf(replicated, free), replica, others)
    const b = await newcomer(t, replicated, library)
    await Promise.all([waits(b, free, lost), waits(b, unknown, lost)])
    assert.ok(!first.some((lease) => lease.isHeld))
    await atOnce(b, unused)
    await atOnce(await newcomer(t, replicated, library), [free, unknown])
  })

  test(`a slot that moves grants locks at once, and takes its quarantine along (${library})`, async (t) => {
    await old(replicated)
    const [from, to] = i === 0 ? replicated.masters.slice(2) : replicated.masters.slice(2).reverse()
    assert.ok(from && to)
    const [moved = '', flushed = ''] = await namesOn(replicated, from, `moved ${library}`, 2)
    const [a, b] = [await newcomer(t, replicated, library), await newcomer(t, replicated, library)]
    await atOnce(a, [moved])
    await replicated.migrateSlot(await slotOf(replicated, moved), to)
    await atOnce(b, [moved])
    const first = await a.mutex(flushed).acquire()
    const lost = performance.now()
    await from.cli('FLUSHALL')
    const early = await b.mutex(flushed).tryAcquire()
    if (early !== undefined) {
      assert.ok(performance.now() - lost > ttl, 'granted before the quarantine is over')
      await early.release()
    }
    await replicated.migrateSlot(await slotOf(replicated, flushed), to)
    await waits(b, flushed, lost)
    assert.ok(!first.isHeld)
  })
}

test('H19 in a Cluster: the longest ttl that one process has set applies to all, also after a restart with older data', async (t) => {
  await old(alone)
  const node = alone.masters[0]
  const [name = ''] = await namesOn(alone, node, 'longest', 1)
  const [short, long] = [
    await newcomer(t, alone, 'ioredis'),
    await newcomer(t, alone, 'ioredis', { maxTtl: 3 * ttl }),
  ]
  await atOnce(short, [name])
  await atOnce(long, [name])
  await node?.cli('SAVE')
  const first = await long.mutex(name).acquire()
  const lost = performance.now()
  await node?.kill9()
  await node?.restart()
  for (const node of alone.nodes)
    await until(async () => String(await node.cli('CLUSTER', 'INFO')).includes('cluster_state:ok'))
  const second = await short.mutex(name).acquire({ wait: 60_000 })
  const passed = Math.round(performance.now() - lost)
  assert.ok(passed > 3 * ttl, `granted ${passed} ms after the loss`)
  assert.ok(!first.isHeld)
  await second.release()
})

test('no lock, whatever its name and prefix, is mistaken for the marker of its slot, or overwritten by it', async (t) => {
  await old(alone)
  const node = alone.masters[3]
  const [other = ''] = await namesOn(alone, node, 'of the same slot', 1)
  const tag = slotTag(await slotOf(alone, other))
  for (const [prefix, name] of [
    ['hf:boot', tag],
    ['hf:', tag],
    ['hf:', `${tag}}:boot`],
    ['hf:', `{${tag}`],
  ] as const) {
    const a = await newcomer(t, alone, 'ioredis', { prefix })
    const held = await a.mutex(name).acquire({ wait: 10_000 })
    await atOnce(await newcomer(t, alone, 'ioredis'), [other])
    assert.equal(await (await newcomer(t, alone, 'ioredis', { prefix })).mutex(name).tryAcquire(), undefined)
    assert.ok((await held.extend()) > 0)
    assert.equal(await held.release(), 'released')
  }
})

test('a node that loses its last replica, or gets its first one, has forgotten nothing and bars nothing', async (t) => {
  await using cluster = await startCluster({ masters: 2, replicas: 1, nodeTimeout: 60_000 })
  await old(cluster)
  const [owner, replica] = [cluster.masters[0], cluster.replicas[0]]
  assert.ok(owner && replica)
  const names = await namesOn(cluster, owner, 'replicas', 3)
  const a = await newcomer(t, cluster, 'ioredis')
  await owner.cli('FLUSHALL')
  await a.mutex(names[0] ?? '').run(() => undefined, { wait: 30_000 })
  const history = async () =>
    /master_replid:(\w+)/.exec(String(await owner.cli('INFO', 'replication')))?.[1] ?? assert.fail()
  const whileReplicated = await history()
  await owner.cli('CONFIG', 'SET', 'repl-backlog-ttl', 1)
  await replica.kill9()
  await until(async () => (await history()) !== whileReplicated)
  await atOnce(a, names)
  await atOnce(await newcomer(t, cluster, 'node-redis'), await namesOn(cluster, owner, 'lost the last', 3))
  const alone = await history()
  await replica.restart()
  await until(async () => (await history()) !== alone)
  await atOnce(a, names)
  await atOnce(await newcomer(t, cluster, 'node-redis'), await namesOn(cluster, owner, 'got the first', 3))
})

test('a FLUSHALL that was refused bars nothing', async (t) => {
  await using cluster = await startCluster({ masters: 2 })
  await old(cluster)
  const [node] = cluster.masters
  await node?.cli('ACL', 'SETUSER', 'reader', 'on', '>secret', '+@read')
  const client = await node?.client()
  await client?.send('AUTH', 'reader', 'secret')
  await assert.rejects(async () => client?.send('FLUSHALL'), /NOPERM/)
  await client?.[Symbol.asyncDispose]()
  await atOnce(await newcomer(t, cluster, 'ioredis'), await namesOn(cluster, node, 'x', 2))
})

test('a clock set back by an hour makes a quarantine last no longer than two, and bars no slot for longer', async (t) => {
  await using cluster = await startCluster({ masters: 2, preload: ['clock'] })
  const [node] = cluster.masters
  const locks = await newcomer(t, cluster, 'ioredis')
  const [x = '', y = ''] = await namesOn(cluster, node, 'before the jump', 2)
  assert.equal(await locks.mutex(x).tryAcquire(), undefined)
  node?.clockJump(-3_600_000)
  const back = performance.now()
  await locks.mutex(x).run(() => undefined, { wait: 20_000 })
  // One in which nobody had a lock before finds an uptime that is negative. It tells the others.
  await locks.mutex(y).run(() => undefined, { wait: 20_000 })
  const passed = Math.round(performance.now() - back)
  assert.ok(passed < 3 * ttl + 5_000, `granted after ${passed} ms`)
  await atOnce(locks, await namesOn(cluster, node, 'after the jump', 12))
})

// With one client: what is tested is in the scripts, and ioredis takes longer for a release meanwhile than one may with this ttl.
test('a lock works at every step of a move of its slot, and its marker is never in two places', async (t) => {
  await old(alone)
  const [from, to] = alone.masters
  assert.ok(from && to)
  const [a, b] = [await newcomer(t, alone, 'node-redis'), await newcomer(t, alone, 'node-redis')]
  for (const markerFirst of [true, false]) {
    const [name = ''] = await namesOn(alone, from, `step ${markerFirst}`, 1)
    const slot = await slotOf(alone, name)
    const [hash, marker] = [`hf:{${name}}`, slotMarkerKey('hf:', slot)]
    await atOnce(a, [name])
    const markers = async () => {
      const count = async (node: RedisServer) =>
        ((await node.cli('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[]).includes(marker)
      return `${await count(from)} ${await count(to)}`
    }
    const works = async (expected: string) => {
      for (const locks of [a, b]) {
        const lease = await locks.mutex(name).acquire({ wait: 10_000 })
        assert.ok((await lease.extend()) > 0)
        assert.equal(await lease.release(), 'released')
      }
      assert.equal(await markers(), expected)
    }
    const migration = await alone.beginMigration(slot, to)
    await works('true false')
    for (const key of markerFirst ? [marker, hash] : [hash, marker]) {
      await migration.moveKeys(key)
      await works(key === marker || markerFirst ? 'false true' : 'true false')
    }
    await migration.finish()
    await works('false true')
  }
})

after(leakCheck)
