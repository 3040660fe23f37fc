// Three members: leaders that die, freeze and come back, endpoints that are down. The exact checkers judge the recorded histories.
// Second tier because a cluster is a topology of its own, and its leaders take a while to be replaced.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { BackendError } from '../../src/index.js'
import { driverOf, placesOf, protocols } from '../drivers/etcd/support/scene.js'
import { never, waiting } from '../drivers/support/asking.js'
import { claim } from '../drivers/support/session-store.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcdCluster } from '../support/servers/etcd.js'
import { until } from '../support/until.js'

const cluster = await startEtcdCluster(3)
after(() => cluster.stop())

for (const [protocol, over] of protocols) {
  test(`${protocol}: a lease outlives its leader: a holder keeps it, and its place, over the change`, async (t) => {
    const ttl = 40_000
    const driver = driverOf(t, cluster.urls, { ...over, requestTimeout: 500 })
    const grant = await driver.acquire(claim('outlives', { ttl }), waiting())
    assert.ok(grant)
    const other = driverOf(t, cluster.urls, { ...over, requestTimeout: 500 })
    const waits = other.acquire(claim('outlives', { ttl }), waiting())
    const leader = await cluster.leader()
    await until(async () => (await placesOf(leader, 'outlives')).length === 2)
    await leader.kill9()
    await until(async () => (await grant.renew(ttl, never).catch(() => 0)) !== 0, {
      within: 35_000,
      every: 100,
    })
    assert.ok(grant.validUntil > performance.now())
    const alive = cluster.servers.find(({ running }) => running)
    assert.ok(alive && (await placesOf(alive, 'outlives')).length === 2)
    assert.equal(await grant.release(), 'released')
    assert.equal(await (await waits)?.release(), 'released')
    await leader.restart()
    await cluster.leader()
  })

  test(`${protocol}: a member without a majority proves nothing: its answers do not keep a lease`, async (t) => {
    const [alone, ...others] = cluster.servers
    assert.ok(alone)
    const ttl = 30_000
    const driver = driverOf(t, alone.url, { ...over, requestTimeout: 500 })
    const grant = await driver.acquire(claim(`minority over ${protocol}`, { ttl }), waiting())
    assert.ok(grant)
    for (const other of others) other.pause()
    const paused = performance.now()
    try {
      // A renewal that repeats what was proven a moment ago asks nobody.
      const refused = await until(() =>
        grant.renew(ttl, never).then(
          () => undefined,
          (error: BackendError) => error,
        ),
      )
      assert.equal(refused.code, 'BACKEND')
      assert.ok(grant.validUntil < paused + 0.99 * ttl, 'a minority moved the deadline')
    } finally {
      for (const other of others) other.resume()
    }
    await cluster.leader()
  })

  test(`${protocol}: an endpoint that is gone is left for the next, by holders and waiters`, async (t) => {
    const [first, second] = cluster.servers
    assert.ok(first && second)
    const [a, b] = [1, 2].map(() => driverOf(t, [first.url, second.url], { ...over, requestTimeout: 500 }))
    const holder = await a?.acquire(claim('endpoint', { ttl: 40_000 }), waiting())
    const waits = b?.acquire(claim('endpoint', { ttl: 40_000 }), waiting())
    await until(async () => (await placesOf(second, 'endpoint')).length === 2)
    await first.kill9()
    await until(async () => ((await holder?.renew(40_000, never).catch(() => 0)) ?? 0) > 0, {
      within: 35_000,
    })
    assert.equal(await holder?.release(), 'released')
    assert.equal(await (await waits)?.release(), 'released')
    await first.restart()
  })
}

after(leakCheck)
