// A node of a Cluster that comes back without its data: it must not treat forgotten locks as free.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { driverOn, type Library, open, type Place } from '../drivers/redis/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { until } from '../support/until.js'

const cluster = await startCluster()
after(() => cluster.stop())
const place: Place = { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) }
const ttl = 3_000

function fresh(t: TestContext, library: Library): Locks {
  const locks = createLocks(driverOn(open(library, place), { quarantine: 'strict', maxTtl: ttl }), { ttl })
  t.after(() => locks.close())
  return locks
}

/** A process that has used the Cluster before, as all have that may hold something. */
async function settled(t: TestContext, library: Library): Promise<Locks> {
  const locks = fresh(t, library)
  await locks.mutex('used before').run(() => undefined)
  return locks
}

for (const library of ['ioredis', 'node-redis'] as const) {
  test(`H16 in a Cluster: after a restart without data a node grants nothing it may have forgotten (${library})`, async (t) => {
    const [a, b] = [await settled(t, library), fresh(t, library)]
    const name = `restarted ${library}`
    const owner = await cluster.findOwner(await cluster.keySlot(`hf:{${name}}`))
    const first = await a.mutex(name).acquire()
    const plain = `{${name}}:plain`
    assert.equal(await owner.cli('SET', plain, 'somebody', 'PX', 30_000, 'NX'), 'OK')
    const restarted = performance.now()
    await owner.restart()
    await until(async () => String(await owner.cli('CLUSTER', 'INFO')).includes('cluster_state:ok'))
    assert.equal(
      await owner.cli('SET', plain, 'another', 'PX', 30_000, 'NX'),
      'OK',
      'the plain lock has a second holder',
    )
    // By a process that has never met the Cluster. Granted at the first attempt, then only because the time is over already.
    const early = await b.mutex(name).tryAcquire()
    const second = early ?? (await b.mutex(name).acquire({ wait: 20_000 }))
    assert.ok(performance.now() - restarted > ttl, 'granted before what it may have forgotten has run out')
    assert.ok(!first.isHeld, 'granted while the first holder could still believe in it')
    assert.ok(second.token > first.token)
    await second.release()
    // A process that connects now, or has just connected, need not wait.
    assert.ok(await fresh(t, library).mutex(`${name} anew`).tryAcquire())
  })
}

after(leakCheck)
