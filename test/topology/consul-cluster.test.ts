// Three servers: leaders that die, freeze and come back, agents that are down.
// Second tier because a cluster is a topology of its own, and its leaders take a while to be replaced.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { driverOf, placesOf } from '../drivers/consul/support/scene.js'
import { never, waiting } from '../drivers/support/asking.js'
import { claim } from '../drivers/support/session-store.js'
import { leakCheck } from '../support/leaks.js'
import { startConsulCluster } from '../support/servers/consul.js'
import { until } from '../support/until.js'

const cluster = await startConsulCluster(3)
after(() => cluster.stop())

test('a session outlives its leader: a holder keeps it, and its place, over the change', async (t) => {
  const [a, b] = [1, 2].map(() => driverOf(t, cluster.urls, { requestTimeout: 500 }))
  const grant = await a?.acquire(claim('outlives', { ttl: 40_000 }), waiting())
  const waits = b?.acquire(claim('outlives', { ttl: 40_000 }), waiting())
  const leader = await cluster.leader()
  const other = cluster.servers.find((server) => server !== leader)
  assert.ok(grant && other)
  await until(async () => (await placesOf(other, 'outlives')).length === 2)
  await leader.kill9()
  const renewed = async () => ((await grant.renew(40_000, never).catch(() => 0)) ?? 0) > 0
  await until(renewed, { within: 35_000, every: 100 })
  assert.equal(await grant.release(), 'released')
  assert.equal(await (await waits)?.release(), 'released')
  await leader.restart()
  await cluster.leader()
})

test('a server without a majority proves nothing: its answers do not keep a session', async (t) => {
  const leader = await cluster.leader()
  const others = cluster.servers.filter((server) => server !== leader)
  const driver = driverOf(t, leader.url, { requestTimeout: 500 })
  const grant = await driver.acquire(claim('minority', { ttl: 10_000 }), waiting())
  assert.ok(grant)
  const proven = grant.validUntil
  for (const other of others) other.pause()
  await assert.rejects(grant.renew(10_000, never), { code: 'BACKEND' })
  assert.equal(grant.validUntil, proven, 'a minority moved the deadline')
  for (const other of others) other.resume()
  await cluster.leader()
})

after(leakCheck)
