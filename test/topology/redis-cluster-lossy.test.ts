// A master of a Cluster that dies, or is frozen, after it has made grants that its replica never got. Without a quarantine
// (redis-cluster-forgets.test.ts) nothing tells of that: with `replicas: 1` such a grant does not count. The contrast: without it everything is granted a second time.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Lock } from '../../src/core/acquire.js'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { driverOn, type Library, open, type Place } from '../drivers/redis/support/clients.js'
import { waitsInVain } from '../drivers/support/in-vain.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { settled } from '../support/servers/redis-migration.js'
import { until } from '../support/until.js'

const scenes = [
  ['ioredis', 'kill'],
  ['ioredis', 'freeze'],
  ['node-redis', 'kill'],
  ['node-redis', 'freeze'],
] as const
// They replace a master only when told to.
const cluster = await startCluster({ masters: scenes.length, replicas: 1, nodeTimeout: 60_000 })
after(() => cluster.stop())
const ttl = 300_000

async function join(t: TestContext, library: Library, replicas: number, nodes = cluster.nodes) {
  const place: Place = { is: 'cluster', ports: nodes.map(({ port }) => port) }
  const proxies = await Promise.all(cluster.nodes.map(({ port }) => startProxy({ port })))
  const port = (port: number) => proxies[cluster.nodes.findIndex((node) => node.port === port)]?.port ?? port
  const options = { maxTtl: ttl, replicas, replicaTimeout: 300 }
  const locks = createLocks(driverOn(open(library, place, port), options), { ttl })
  t.after(async () => {
    await locks.close()
    await Promise.all(proxies.map((proxy) => proxy.stop()))
  })
  const cut = () => {
    for (const proxy of proxies) proxy.blackHole()
  }
  return { locks, cut }
}

for (const [i, [library, how]] of scenes.entries())
  test(`H18 in a Cluster: with replicas: 1 a grant that a replica never got did not count, whatever was acquired (${how}, ${library})`, async (t) => {
    const [owner, replica] = [cluster.masters[i], cluster.replicas[i]]
    assert.ok(owner && replica)
    const names: string[] = []
    for (let n = 0; names.length < 6; n++) {
      const name = `${how} ${library} ${n}`
      if ((await cluster.findOwner(await cluster.keySlot(`hf:{${name}}`))) === owner) names.push(name)
    }
    const [permits = '', read = '', written = '', one = '', two = '', kept = ''] = names
    const taken = ({ semaphore, readWrite, mutex, all }: Locks): readonly Lock[] => [
      semaphore(permits, { permits: 1 }),
      readWrite(read).read,
      readWrite(written).write,
      all([mutex(one), mutex(two)]),
    ]
    const besides = ({ semaphore, readWrite, mutex }: Locks): readonly (readonly [number, Lock])[] => [
      [0, semaphore(permits, { permits: 1 })],
      [1, readWrite(read).write],
      [2, readWrite(written).read],
      [3, mutex(one)],
      [3, mutex(two)],
    ]
    const [a, c] = await Promise.all([join(t, library, 1), join(t, library, 0)])
    const slot = await cluster.keySlot(`hf:{${kept}}`)
    const first = await a.locks.mutex(kept).acquire()
    // Connected to all nodes: a node-redis Cluster that meets one that is paused waits for it until it wakes.
    assert.equal((await c.locks.inspect(kept)).holders.length, 1)
    replica.pause()
    await owner.cli('CLIENT', 'KILL', 'TYPE', 'replica')
    t.after(() => replica.resume())
    for (const lock of taken(a.locks)) await waitsInVain(a.locks, lock, /0 of 1 replicas/)
    // No answer within the time for a command says nothing of replicas.
    const uncounted = () =>
      first.extend().then(
        () => assert.fail('a renewal counted that no replica has'),
        ({ message }) => /0 of 1 replicas/.test(message),
      )
    await until(uncounted)
    const lost = await Promise.all(taken(c.locks).map((lock) => lock.acquire({ wait: 60_000 })))
    c.cut()
    if (how === 'kill') await owner.kill9()
    else {
      owner.pause()
      t.after(() => owner.resume())
    }
    replica.resume()
    await cluster.failOver(replica, 'takeover')

    // A client that comes now is not sent to a node that is paused: node-redis would wait for that one until it wakes.
    const others = cluster.nodes.filter((node) => node !== owner && node.running)
    await settled(slot, replica, others)
    const { locks } = await join(t, library, 0, others)
    // What was confirmed before is held.
    let told: unknown = 'nothing'
    await until(async () => {
      told = await locks
        .mutex(kept)
        .tryAcquire()
        .catch(({ code }) => code)
      return told !== 'BACKEND' && told !== 'UNAVAILABLE'
    })
    assert.equal(told, undefined)
    assert.equal(first.state, 'held')
    const leases = []
    for (const [held, lock] of besides(locks)) {
      leases.push(await lock.acquire({ wait: 60_000 }))
      // The contrast.
      assert.ok(lost[held]?.isHeld, `the first holder of ${lock.name} knows`)
    }
    if (how === 'freeze') {
      let granted = 0
      const asked = taken(a.locks).map(async (lock) => {
        const lease = await lock.acquire({ wait: 120_000 })
        granted++
        await lease.release()
      })
      const served = Promise.all(asked)
      served.catch(() => undefined)
      owner.resume()
      await until(async () => String(await owner.cli('ROLE').catch(String)).startsWith('slave'))
      assert.equal(granted, 0, 'the woken master has let a second one in')
      for (const lease of leases) assert.equal(await lease.release(), 'released')
      await served
    }
  })

after(leakCheck)
