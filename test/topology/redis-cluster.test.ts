// What only a Cluster does: redirections while slots move, slots chosen by names, a master replaced.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../src/core/clock.js'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { driverOn, type Library, open, type Place } from '../drivers/redis/support/clients.js'
import { pause, reachable, withoutLooking } from '../drivers/redis/support/peer.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { readNodeId, settled } from '../support/servers/redis-migration.js'
import type { RedisServer } from '../support/servers/redis-node.js'
import { until } from '../support/until.js'

const cluster = await startCluster({ replicas: 1 })
after(() => cluster.stop())
const place: Place = { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) }
const libraries: readonly Library[] = ['ioredis', 'node-redis']

function locksOn(t: TestContext, library: Library, options = {}, clock?: Clock): Locks {
  const driver = driverOn(open(library, place), options)
  const locks = createLocks(clock === undefined ? driver : (env) => driver({ ...env, clock }))
  t.after(() => locks.close())
  return locks
}

/** Many processes' worth of taking turns on a few names, counted. */
async function takeTurns(
  all: readonly Locks[],
  names: readonly string[],
  done: () => boolean,
  counted: () => void,
): Promise<void> {
  const inside = new Map<string, number>()
  await Promise.all(
    all.map(async (locks, i) => {
      let last = 0
      for (let j = i; !done(); j++) {
        const name = names[j % names.length] ?? ''
        const lease = await locks.mutex(name).acquire({ wait: 20_000 })
        assert.equal(inside.get(name) ?? 0, 0, `two holders of ${name}`)
        inside.set(name, 1)
        counted()
        await pause(1)
        inside.set(name, 0)
        last = Math.max(last, lease.token)
        assert.notEqual(await lease.release(), 'lost')
      }
    }),
  )
}

for (const library of libraries) {
  test(`MOVED, ASK, TRYAGAIN: slots move under load and nothing is granted twice (${library})`, async (t) => {
    // While its keys are in two places nothing is renewed or released: a claim that came by push is to outlast that, on a busy machine, too.
    const all = Array.from({ length: 4 }, () => locksOn(t, library))
    const names = [`moving ${library} a`, `moving ${library} b`]
    let [done, turns] = [false, 0]
    const counted = () => {
      turns++
    }
    const taking = takeTurns(all, names, () => done, counted)
    /** Before and after each move; while its keys are in two places, a name is not served. */
    const some = async () => {
      const from = turns
      await Promise.race([taking, until(() => turns >= from + 8, { within: 20_000 })])
    }
    for (const name of names) {
      const slot = await cluster.keySlot(`hf:{${name}}`)
      const owner = await cluster.findOwner(slot)
      const target = cluster.masters.find((node) => node.port !== owner.port)
      assert.ok(target)
      await some()
      const migration = await cluster.beginMigration(slot, target)
      await pause(100)
      // Half of the keys here, half there: TRYAGAIN for a script that needs both.
      await migration.moveKeys(`hf:{${name}}`)
      await pause(200)
      await migration.moveKeys()
      await pause(50)
      await migration.finish()
      await some()
    }
    done = true
    await taking
  })

  test(`names choose their slot as a whole, braces and all (${library})`, async (t) => {
    const locks = locksOn(t, library)
    const names = ['{a}b', 'a{b}c', '}{', '%7B', '{}', 'x'.repeat(400), 'naïve ✓', '{user:1}:lock', 'a b']
    const leases = await Promise.all(names.map((name) => locks.mutex(name).acquire()))
    for (const name of names) assert.equal((await locks.inspect(name)).holders.length, 1, name)
    const listed = (await locks.list()).map(({ name }) => name)
    assert.deepEqual(
      names.filter((name) => !listed.includes(name)),
      [],
    )
    assert.equal(new Set(leases.map(({ token }) => token)).size <= names.length, true)
    for (const lease of leases) assert.equal(await lease.release(), 'released')
  })

  test(`several locks at once, in different slots, are acquired and released (${library})`, async (t) => {
    const locks = locksOn(t, library)
    const parts = ['one', 'two', 'three', 'four'].map((name) => locks.mutex(`${library} ${name}`))
    await using lease = await locks.all(parts).acquire()
    assert.ok(lease.isHeld)
  })
}

test('a hand-over reaches a process whose subscription is on another node', async (t) => {
  const [a, ...others] = Array.from({ length: 6 }, () => locksOn(t, 'ioredis', {}, withoutLooking()))
  assert.ok(a)
  for (let round = 0; round < 3; round++) {
    const name = `elsewhere ${round}`
    const lease = await a.mutex(name).acquire()
    const waits = others.map((locks) => locks.mutex(name).run(() => undefined, { wait: 20_000 }))
    await reachable(await cluster.findOwner(await cluster.keySlot(`hf:{${name}}`)), name, 5)
    await lease.release()
    await Promise.all(waits)
  }
})

test('with replicas: 1 a client that connects only when it is used is notified of its turn', async (t) => {
  const [a, b] = [0, 1].map(() => locksOn(t, 'ioredis', { replicas: 1, replicaTimeout: 5_000 })) as [
    Locks,
    Locks,
  ]
  const lease = await a.mutex('connected late').acquire()
  const next = b.mutex('connected late').acquire({ wait: 60_000 })
  await reachable(await cluster.findOwner(await cluster.keySlot('hf:{connected late}')), 'connected late', 1)
  await lease.release()
  await (await next).release()
})

/** A Cluster client of ioredis alone: its GET is redirected with ASK, and the connection breaks before ASKING is answered. */
const redirected = `
  const { parentPort, workerData } = require('node:worker_threads')
  const { Cluster } = require('ioredis')
  const { host, natMap, key, adopt } = workerData
  const cluster = new Cluster([host], { natMap })
  cluster.on('error', () => undefined)
  if (adopt) cluster.on('+node', (node) => {
    const asking = node.asking.bind(node)
    node.asking = () => { const told = asking(); told.catch(() => undefined); return told }
  })
  cluster.get(key).then(
    () => { parentPort.postMessage('answered'); cluster.disconnect() },
    (error) => { parentPort.postMessage(String(error)); cluster.disconnect() })
`

test('ioredis gives the promise of an ASKING to nobody: when it breaks, a process that does not listen ends', async (t) => {
  const key = 'redirected'
  const slot = await cluster.keySlot(key)
  const from = await cluster.findOwner(slot)
  const to = cluster.masters.find((node) => node !== from)
  assert.ok(to)
  const migration = await cluster.beginMigration(slot, to)
  await using proxy = await startProxy({ port: to.port })
  const natMap = { [`${to.host}:${to.port}`]: { host: proxy.host, port: proxy.port } }
  const outcome = async (adopt: boolean) => {
    proxy.up.hold('asking')
    const host = { host: from.host, port: from.port }
    const worker = new Worker(redirected, { eval: true, workerData: { host, natMap, key, adopt } })
    const told = new Promise<string>((resolve) => {
      worker.on('message', resolve)
      worker.on('error', ({ message }) => resolve(`uncaught: ${message}`))
    })
    await proxy.up.holding()
    proxy.reset()
    proxy.up.pass()
    const text = await told
    await worker.terminate()
    return text
  }
  t.after(() => migration.finish())
  assert.equal(await outcome(false), 'uncaught: Connection is closed.')
  // So does the driver: src/drivers/redis/ioredis-asking.ts.
  assert.equal(await outcome(true), 'answered')
})

/** The replica of the master that has this slot, now. */
async function replicaOf(owner: RedisServer): Promise<RedisServer> {
  const own = await readNodeId(owner)
  const line = String(await owner.cli('CLUSTER', 'NODES'))
    .split('\n')
    .find((line) => line.includes(` slave ${own} `))
  const replica = cluster.nodes.find(({ port }) => line?.includes(`:${port}@`))
  assert.ok(replica)
  return replica
}

for (const library of libraries)
  test(`a master that fails over: waiters go on, and with replicas: 1 its lock is not granted twice (${library})`, async (t) => {
    const kept = { replicas: 1, replicaTimeout: 5_000, commandTimeout: 10_000, maxTtl: 300_000 }
    const [a, b, c] = [locksOn(t, library, kept), locksOn(t, library, kept), locksOn(t, library, kept)]
    const name = `failing over ${library}`
    const lease = await a.mutex(name).acquire({ ttl: 300_000 })
    const slot = await cluster.keySlot(`hf:{${name}}`)
    const owner = await cluster.findOwner(slot)
    const next = await replicaOf(owner)
    const waiting = c.mutex(name).acquire({ ttl: 60_000, wait: 120_000 })
    await reachable(owner, name, 1)
    await owner.kill9()
    await cluster.failOver(next, 'takeover')
    await owner.restart()
    await settled(slot, next, cluster.nodes)
    await until(async () => /slave0:.*state=online/.test(String(await next.cli('INFO', 'replication'))), {
      what: 'the old master to be the replica of the new one',
    })
    // Somebody holds it, which is no error: those that the connection to the dead master leaves behind are asked again.
    let told: unknown = 'nothing'
    await until(async () => {
      told = await b
        .mutex(name)
        .tryAcquire()
        .catch((error: Error & { code?: string }) => error.code)
      return told !== 'BACKEND' && told !== 'UNAVAILABLE'
    })
    assert.equal(told, undefined)
    const [holder] = (await b.inspect(name)).holders
    assert.equal(holder?.token, lease.token)
    await until(() =>
      lease.extend().catch(({ code }) => code !== 'BACKEND' && code !== 'UNAVAILABLE' && code),
    )
    assert.equal(lease.state, 'held')
    assert.ok((await lease.extend()) > 0)
    assert.equal(await b.mutex(name).tryAcquire(), undefined)
    await until(async () => (await b.inspect(name)).waiters.length === 1)
    assert.equal(await lease.release(), 'released')
    const second = await waiting
    assert.ok(second.token > lease.token)
    assert.equal(await second.release(), 'released')
    const third = await b.mutex(name).acquire({ wait: 60_000 })
    assert.ok(third.token > second.token)
    await third.release()
  })

after(leakCheck)
