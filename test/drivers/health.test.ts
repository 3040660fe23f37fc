// What health() says of stores that answer and yet can grant nothing: in quarantine, and without a majority.
// Second tier because it restarts servers and breaks majorities; the suite asks of every driver's health.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { etcd } from '../../src/drivers/etcd/index.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcdCluster } from '../support/servers/etcd.js'
import { startMany, startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'
import { peer } from './redis/support/peer.js'
import { locksOf } from './redlock/support/scene.js'

after(leakCheck)

/** In ms; long enough that a store in quarantine is still in it when it is asked. */
const quarantine = 5_000

test('redis: a server that restarted without its data is in quarantine, then well again', async (t) => {
  await using server = await startRedis()
  const { locks } = peer(t, server.port, { maxTtl: quarantine, ttl: quarantine })
  assert.equal((await locks.health()).status, 'ok')
  await server.restart({ keepData: false })
  await until(async () => (await locks.health()).status === 'quarantine')
  const told = await locks.health()
  assert.equal(told.ok, false)
  assert.match(String(told.error?.message), /quarantine until/)
  assert.equal(told.error?.publicMessage, 'the store of the locks cannot be used at present')
  assert.ok((await locks.ping()) >= 0, 'it answers')
  await until(async () => (await locks.health()).ok)
  await locks.close()
})

test('redlock: two of three servers that forgot are a quarantine, two that are gone are an outage', async (t) => {
  await using group = await startMany(3)
  const [, second, third] = group.servers
  assert.ok(second && third)
  const scene = { servers: group.servers, ports: group.servers.map(({ port }) => port), prefix: 'hf:' }
  const locks = locksOf(t, scene, { maxTtl: quarantine, commandTimeout: 1_000 })
  await (await locks.mutex('m').acquire({ ttl: quarantine })).release()
  assert.equal((await locks.health()).status, 'ok')
  await Promise.all([second, third].map((server) => server.restart({ keepData: false })))
  await until(async () => (await locks.health()).status === 'quarantine')
  await until(async () => (await locks.health()).ok)
  await Promise.all([second, third].map((server) => server.kill9()))
  const told = await locks.health()
  assert.deepEqual([told.ok, told.status], [false, 'unavailable'])
  assert.match(String(told.error?.message), /fewer than 2 of 3 servers can vote|gave no answer/)
  await locks.close()
})

test('etcd: a member without its majority answers nothing', async () => {
  await using cluster = await startEtcdCluster()
  const [first, second, third] = cluster.servers
  assert.ok(first && second && third)
  await using locks = createLocks(etcd({ endpoints: [first.url] }))
  await until(async () => (await locks.health()).ok)
  await Promise.all([second, third].map((member) => member.kill9()))
  const told = await locks.health({ timeout: 1_000 })
  assert.deepEqual([told.ok, told.status, told.error?.code], [false, 'unavailable', 'UNAVAILABLE'])
})
