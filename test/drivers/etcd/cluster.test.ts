// Three members: leaders that die, freeze and come back, endpoints that are gone. What is recorded is judged by the exact checkers.
import assert from 'node:assert/strict'
import { once as event } from 'node:events'
import { after, test } from 'node:test'
import { etcd } from '../../../src/drivers/etcd/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startEtcdCluster } from '../../support/servers/etcd.js'
import { until } from '../../support/until.js'
import { claim, never, once, waiting } from '../support/asking.js'
import { crowd } from '../support/crowd.js'
import { driverOf, placesOf } from './support/scene.js'

const cluster = await startEtcdCluster(3)
after(() => cluster.stop())

/** The bound of the docs page: an election, a lease that is given its whole ttl again by the new leader, and a request. */
const bound = (ttl: number) => 2 * Math.ceil((ttl * 1.1) / 1000) * 1000 + 5_000

test('a leader that is killed, and one that freezes, cause no violation, and waiting resumes within the bound', async () => {
  const ttl = 1_000
  const { stop, count } = crowd(['a', 'b'], 4, ttl, (i) => {
    const order = cluster.urls.map((_, n) => cluster.urls[(n + i) % cluster.urls.length] as string)
    return etcd({ endpoints: order, requestTimeout: 500 })
  })
  for (const how of ['kill', 'freeze'] as const) {
    await until(() => count() > 20, { within: 20_000 })
    const leader = await cluster.leader()
    if (how === 'kill') await leader.kill9()
    else leader.pause()
    const [at, before] = [performance.now(), count()]
    await until(() => count() > before + 20, {
      within: bound(ttl),
      every: 20,
      what: 'locks after the leader',
    })
    assert.ok(performance.now() - at < bound(ttl))
    if (how === 'kill') await leader.restart()
    else leader.resume()
    await cluster.leader()
  }
  await stop()
})

test('a lease outlives its leader: a holder keeps it, and its place, over the change', async (t) => {
  const driver = driverOf(t, cluster.urls, { requestTimeout: 500 })
  const grant = await driver.acquire(claim('outlives', { ttl: 5_000 }), once())
  assert.ok(grant)
  const waits = driverOf(t, cluster.urls, { requestTimeout: 500 }).acquire(
    claim('outlives', { ttl: 5_000 }),
    waiting(),
  )
  const leader = await cluster.leader()
  await leader.kill9()
  await until(async () => (await grant.renew(5_000, never).catch(() => 0)) !== 0, {
    within: 5_000,
    every: 100,
  })
  assert.ok(grant.validUntil > performance.now())
  const other = cluster.servers.find(({ running }) => running)
  assert.ok(other && (await placesOf(other, 'outlives')).length === 2)
  assert.equal(await grant.release(), 'released')
  assert.equal(await (await waits)?.release(), 'released')
  await leader.restart()
  await cluster.leader()
})

test('a lease of a dead process under a dead leader is gone within the bound: the new leader counts it anew', async (t) => {
  const { fork } = await import('node:child_process')
  const ttl = 2_000
  const child = fork(new URL('./support/holder.js', import.meta.url), [
    JSON.stringify([cluster.urls, 'dead', ttl]),
  ])
  t.after(() => child.kill('SIGKILL'))
  await event(child, 'message')
  const waits = driverOf(t, cluster.urls, { requestTimeout: 500 }).acquire(claim('dead'), waiting())
  const [one] = cluster.servers
  assert.ok(one)
  await until(async () => (await placesOf(one, 'dead')).length === 2)
  const gone = event(child, 'exit')
  child.kill('SIGKILL')
  await gone
  const leader = await cluster.leader()
  await leader.kill9()
  const begin = performance.now()
  const grant = await waits
  const took = performance.now() - begin
  assert.ok(took < bound(ttl), `took ${took} ms`)
  await grant?.release()
  await leader.restart()
  await cluster.leader()
})

test('a member without a majority proves nothing: its answers do not keep a lease', async (t) => {
  const [alone, ...others] = cluster.servers
  assert.ok(alone)
  const driver = driverOf(t, alone.url, { requestTimeout: 500 })
  const grant = await driver.acquire(claim('minority', { ttl: 2_000 }), once())
  assert.ok(grant)
  const until = grant.validUntil
  for (const other of others) other.pause()
  await assert.rejects(grant.renew(2_000, never), { code: 'BACKEND' })
  assert.equal(grant.validUntil, until, 'a minority moved the deadline')
  for (const other of others) other.resume()
  await cluster.leader()
})

test('an endpoint that is gone is left for the next, by whoever holds and whoever waits', async (t) => {
  const [first, second] = cluster.servers
  assert.ok(first && second)
  const [a, b] = [1, 2].map(() => driverOf(t, [first.url, second.url], { requestTimeout: 500 }))
  const holder = await a?.acquire(claim('endpoint', { ttl: 4_000 }), once())
  const waits = b?.acquire(claim('endpoint', { ttl: 4_000 }), waiting())
  await until(async () => (await placesOf(second, 'endpoint')).length === 2)
  await first.kill9()
  await until(async () => ((await holder?.renew(4_000, never).catch(() => 0)) ?? 0) > 0)
  assert.equal(await holder?.release(), 'released')
  assert.equal(await (await waits)?.release(), 'released')
  await first.restart()
})

after(leakCheck)
