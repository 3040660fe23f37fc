// Three servers: leaders that die, freeze and come back, agents that are gone.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { consul } from '../../../src/drivers/consul/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startConsulCluster } from '../../support/servers/consul.js'
import { until } from '../../support/until.js'
import { claim, never, once, waiting } from '../support/asking.js'
import { crowd } from '../support/crowd.js'
import { driverOf, placesOf } from './support/scene.js'

const cluster = await startConsulCluster(3)
after(() => cluster.stop())

/** The bound of the docs page: twice the ttl, counted anew by a new leader, and an election. */
const bound = (ttl: number) => 4 * Math.ceil(ttl * 1.1) + 12_000

test('a leader that is killed, and one that freezes, cause no violation, and waiting resumes within the bound', async () => {
  const ttl = 1_000
  const { stop, count } = crowd(['a', 'b'], 3, ttl, (i) => {
    const order = cluster.urls.map((_, n) => cluster.urls[(n + i) % cluster.urls.length] as string)
    return consul({ url: order, minTtl: 1_000, requestTimeout: 500 })
  })
  for (const how of ['kill', 'freeze'] as const) {
    await until(() => count() > 20, { within: 20_000 })
    const leader = await cluster.leader()
    if (how === 'kill') await leader.kill9()
    else leader.pause()
    const before = count()
    await until(() => count() > before + 20, {
      within: bound(ttl),
      every: 20,
      what: 'locks after the leader',
    })
    if (how === 'kill') await leader.restart()
    else leader.resume()
    await cluster.leader()
  }
  await stop()
})

test('a session outlives its leader: a holder keeps it, and its place, over the change', async (t) => {
  const [a, b] = [1, 2].map(() => driverOf(t, cluster.urls, { requestTimeout: 500 }))
  const grant = await a?.acquire(claim('outlives', { ttl: 10_000 }), once())
  const waits = b?.acquire(claim('outlives', { ttl: 10_000 }), waiting())
  const leader = await cluster.leader()
  const other = cluster.servers.find((server) => server !== leader)
  assert.ok(grant && other)
  await until(async () => (await placesOf(other, 'outlives')).length === 2)
  await leader.kill9()
  const renewed = async () => ((await grant.renew(10_000, never).catch(() => 0)) ?? 0) > 0
  await until(renewed, { within: 9_000, every: 100 })
  assert.equal(await grant.release(), 'released')
  assert.equal(await (await waits)?.release(), 'released')
  await leader.restart()
  await cluster.leader()
})

test('a server without a majority proves nothing: its answers do not keep a session', async (t) => {
  const leader = await cluster.leader()
  const others = cluster.servers.filter((server) => server !== leader)
  const driver = driverOf(t, leader.url, { requestTimeout: 500 })
  const grant = await driver.acquire(claim('minority', { ttl: 3_000 }), once())
  assert.ok(grant)
  const proven = grant.validUntil
  for (const other of others) other.pause()
  await assert.rejects(grant.renew(3_000, never), { code: 'BACKEND' })
  assert.equal(grant.validUntil, proven, 'a minority moved the deadline')
  for (const other of others) other.resume()
  await cluster.leader()
})

after(leakCheck)
