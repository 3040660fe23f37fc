// A slot that no node owns for a moment, as after a fail-over: with every version of the clients.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Clock } from '../../src/core/clock.js'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { type RedisOptions, redis } from '../../src/drivers/redis/index.js'
import type { Place } from '../drivers/redis/support/place.js'
import { type Version, versionNamed, versions } from '../drivers/redis/support/versions.js'
import { slowClock } from '../drivers/support/slow-clock.js'
import { leakCheck } from '../support/leaks.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { settled } from '../support/servers/redis-migration.js'

const cluster = await startCluster({ args: ['--cluster-require-full-coverage', 'no'] })
after(() => cluster.stop())
const place: Place = { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) }

async function locksOn(
  t: TestContext,
  version: Version,
  options: Pick<RedisOptions, 'commandTimeout'> = {},
  clock?: Clock,
): Promise<Locks> {
  const { client, start, close } = await version.open(place)
  await start()
  const driver = redis({ client, quarantine: 'off', ...options })
  const locks = createLocks(clock === undefined ? driver : (env) => driver({ ...env, clock }))
  t.after(() => locks.close().then(close))
  return locks
}

/**
 * Makes all nodes forget who owns the slot of `name`. They hear it from each other when `fill` has been called:
 * the same happens when the old master of a slot is known to be a replica before the new one is known to be its master.
 */
async function gapAt(name: string): Promise<{ fill(): Promise<void> }> {
  const slot = await cluster.keySlot(`hf:{${name}}`)
  const owner = await cluster.findOwner(slot)
  for (const node of [owner, ...cluster.nodes.filter((one) => one !== owner)])
    await node.cli('CLUSTER', 'DELSLOTS', slot)
  return {
    async fill() {
      await owner.cli('CLUSTER', 'ADDSLOTS', slot)
      await settled(slot, owner, cluster.nodes)
    },
  }
}

for (const version of versions.filter(({ places }) => places.includes('cluster'))) {
  test(`a client that learnt the nodes while a slot had no owner finds the locks in it (${version.name})`, async (t) => {
    const name = `gap ${version.name}`
    const gap = await gapAt(name)
    const [a, b] = await Promise.all([locksOn(t, version), locksOn(t, version)])
    await gap.fill()
    const lease = await a.mutex(name).tryAcquire()
    assert.ok(lease)
    assert.ok((await lease.extend()) > 0)
    assert.equal(await b.mutex(name).tryAcquire(), undefined)
    assert.equal((await b.inspect(name)).holders.length, 1)
    const waiter = b.mutex(name).acquire({ wait: 5_000 })
    assert.equal(await lease.release(), 'released')
    const next = await waiter
    assert.ok(next.token > lease.token)
    assert.equal(await next.release(), 'released')
  })

  test(`a slot without an owner for less than a second delays a try, and fails none (${version.name})`, async (t) => {
    const name = `moment ${version.name}`
    // By this clock the moment is short, however long the nodes of a busy machine take to learn of the owner.
    const locks = await locksOn(t, version, {}, slowClock(10))
    await locks
      .mutex(name)
      .tryAcquire()
      .then((lease) => lease?.release())
    const gap = await gapAt(name)
    const attempt = locks.mutex(name).tryAcquire()
    const [lease] = await Promise.all([
      attempt,
      new Promise((resolve) => setTimeout(resolve, 200)).then(() => gap.fill()),
    ])
    assert.ok(lease)
    assert.equal(await lease.release(), 'released')
  })
}

for (const name of ['ioredis 6.0.0', 'redis 6.3.1']) {
  test(`a slot that stays without an owner is reported as that (${name})`, async (t) => {
    // ioredis repeats the request for 1.6 s and more before it reports the reason.
    const locks = await locksOn(t, versionNamed(name), { commandTimeout: 60_000 })
    const lock = `nobody's ${name}`
    const gap = await gapAt(lock)
    await assert.rejects(locks.mutex(lock).tryAcquire(), /BackendError: redis: .*CLUSTERDOWN/)
    await gap.fill()
  })
}

after(leakCheck)
