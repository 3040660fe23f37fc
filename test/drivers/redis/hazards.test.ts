// Hazards that no other file here covers: lagging replicas, old masters that keep serving, waiters that are gone by the
// dozen, claims of a connection that has been replaced, and what the server is left with.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { connect } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import { BackendError } from '../../../src/core/errors.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { type RedisServer, startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { claim, once, waiting } from '../support/asking.js'
import { commands, driverOf, type PeerOptions, peer, reachable, withoutLooking } from './support/peer.js'

const server = await startRedis()
after(() => server.stop())

const ttl = 1_500

interface Pair {
  readonly master: RedisServer
  readonly replica: RedisServer
  /** Between the two. */
  readonly line: TcpProxy
  /** The replica has all that the master has. */
  synced(): Promise<unknown>
  /** Nothing reaches the replica any more, and it takes the master's place, as a Sentinel would have it. */
  split(): Promise<void>
}

async function pair(t: TestContext): Promise<Pair> {
  const master = await startRedis()
  const line = await startProxy({ port: master.port })
  const replica = await startRedis({ args: ['--replicaof', line.host, String(line.port)] })
  t.after(async () => {
    await replica.stop()
    await line.stop()
    await master.stop()
  })
  const info = async (of: RedisServer) => String(await of.cli('INFO', 'replication'))
  const offset = (text: string) => /master_repl_offset:(\d+)/.exec(text)?.[1]
  const synced = () =>
    until(async () => {
      const [there, here] = [await info(master), await info(replica)]
      return here.includes('master_link_status:up') && offset(there) === offset(here)
    })
  const split = async () => {
    await synced()
    line.blackHole()
    await replica.cli('REPLICAOF', 'NO', 'ONE')
  }
  await synced()
  return { master, replica, line, synced, split }
}

const plain = (on: RedisServer) => on.cli('SET', 'plain', 'somebody', 'PX', 30_000, 'NX').catch(String)

/** A process that has used the server before. */
async function settled(t: TestContext, port: number, options: PeerOptions = {}) {
  const { locks } = peer(t, port, { maxTtl: ttl, ttl, ...options })
  await locks.mutex('used before').run(() => undefined)
  return locks
}

test('H20: an old master that keeps running behind a partition grants the same locks as the new one; the new token is greater', async (t) => {
  const { master, replica, split } = await pair(t)
  await settled(t, master.port)
  await split()
  const a = await settled(t, master.port, { maxTtl: 60_000 })
  assert.equal(await plain(master), 'OK')
  assert.equal(await plain(replica), 'OK', 'the plain lock has two holders')
  // Renewed in time by the old master, however busy this machine is.
  const first = await a.mutex('x').acquire({ ttl: 60_000 })
  const b = peer(t, replica.port, { maxTtl: ttl, ttl }).locks
  const second = await b.mutex('x').acquire({ wait: 20_000 })
  // What the page about this driver says: nothing here prevents it, and only the token tells the two apart.
  assert.ok(first.isHeld)
  assert.ok(second.token > first.token)
  await first.release()
  await second.release()
})

test('H20: with min-replicas-to-write the old master refuses: its holder is notified before the new master grants', async (t) => {
  const { master, replica, split } = await pair(t)
  const a = await settled(t, master.port)
  const first = await a.mutex('x').acquire()
  await master.cli('CONFIG', 'SET', 'min-replicas-to-write', 1, 'min-replicas-max-lag', 1)
  await split()
  await until(async () => String(await plain(master)).includes('NOREPLICAS'), {
    what: 'the old master to miss its replica',
  })
  await assert.rejects(a.mutex('y').tryAcquire(), { code: 'BACKEND', message: /NOREPLICAS/ })
  const b = peer(t, replica.port, { maxTtl: ttl, ttl }).locks
  const second = await b.mutex('x').acquire({ wait: 20_000 })
  assert.equal(first.isHeld, false)
  assert.ok(second.token > first.token)
  await second.release()
})

test('H20: with replicas: 1 grants and renewals of the old master do not count', async (t) => {
  const { master, replica, split } = await pair(t)
  const a = await settled(t, master.port, { replicas: 1, replicaTimeout: 100 })
  const first = await a.mutex('x').acquire()
  await split()
  await assert.rejects(a.mutex('y').tryAcquire(), { code: 'BACKEND', message: /0 of 1 replicas/ })
  const b = peer(t, replica.port, { maxTtl: ttl, ttl }).locks
  const second = await b.mutex('x').acquire({ wait: 20_000 })
  assert.equal(first.isHeld, false)
  assert.ok(second.token > first.token)
  await second.release()
})

test('H23: a lagging replica says "free"; it refuses a request for the lock, and the refusal says nothing about the lock', async (t) => {
  const { master, replica, line, synced } = await pair(t)
  const a = await settled(t, master.port)
  await synced()
  line.blackHole()
  assert.equal(await plain(master), 'OK')
  const lease = await a.mutex('x').acquire()
  assert.equal(await replica.cli('GET', 'plain'), null, 'who reads the plain lock there finds it free')
  const misled = peer(t, replica.port).locks
  await assert.rejects(misled.mutex('x').tryAcquire(), { code: 'BACKEND', message: /READONLY.*master/ })
  assert.equal(await lease.release(), 'released')
})

test('zombie enqueue: a request to enqueue that arrives after its caller left queues nobody', async (t) => {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  const [direct, gone] = [driverOf(t, server.port), driverOf(t, proxy.port, { commandTimeout: 150 })]
  const warm = await gone.driver.acquire(claim('warm'), waiting())
  // Carried out, also when its answer takes longer than this driver waits for one.
  await warm?.release().catch(() => undefined)
  const grant = await direct.driver.acquire(claim('zombie', { ttl: 30_000 }), waiting())
  proxy.up.hold()
  const wait = waiting()
  const asked = gone.driver.acquire(claim('zombie', { ttl: 30_000 }), wait)
  const onTheWay = Buffer.concat((await proxy.up.holding()).map(({ bytes }) => bytes))
  await until(() => wait.told.some(({ error }) => error !== undefined))
  wait.end()
  assert.equal(await asked, undefined)
  proxy.up.drop()
  proxy.heal()
  await until(async () => String(await server.cli('HGET', 'hf:{zombie}', 'x')).includes('~'))
  await deliver(onTheWay)
  assert.deepEqual((await direct.driver.inspect('zombie')).waiters, [])
  await grant?.release()
  assert.deepEqual((await direct.driver.inspect('zombie')).holders, [])
})

test('an anchor dies with its connection: a push after a reconnect is confirmed before anybody enters', async (t) => {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  const holder = driverOf(t, server.port)
  const subscriber = peer(t, server.port).client
  const waiter = driverOf(t, proxy.port, { subscriber, env: { clock: withoutLooking() } })
  const first = await holder.driver.acquire(claim('anchor', { ttl: 30_000 }), waiting())
  const asked = waiter.driver.acquire(claim('anchor', { ttl: 30_000 }), waiting())
  await until(async () => String(await server.cli('HVALS', 'hf:{anchor}')).includes('hf:c:'))
  const broken = new Promise((resolve) => waiter.client.once('close', resolve))
  proxy.reset()
  await broken
  await until(() => waiter.client.status === 'ready')
  await commands(holder.client)
  await first?.release()
  const grant = await asked
  const { evalsha = 0 } = await commands(holder.client)
  assert.ok(evalsha >= 2, 'entered with a deadline that was agreed over another connection')
  assert.equal(await grant?.release(), 'released')
})

test('a wait shorter than a request may take says that the server has not answered', async (t) => {
  const own = await startRedis()
  t.after(() => own.stop())
  const { locks } = peer(t, own.port)
  await locks.mutex('x').run(() => undefined)
  own.pause()
  await assert.rejects(locks.mutex('x').acquire({ wait: 200 }), (error: unknown) => {
    assert.ok(error instanceof BackendError, String(error))
    assert.equal(error.code, 'UNAVAILABLE')
    assert.match(error.message, /the server has not answered yet/)
    return true
  })
  own.resume()
  await locks.close()
})

test('a reply that arrived while the event loop was blocked is read before its request is given up', async (t) => {
  const { driver } = driverOf(t, server.port, { commandTimeout: 200 })
  const warm = await driver.acquire(claim('warm'), waiting())
  await warm?.release().catch(() => undefined)
  const asked = driver.acquire(claim('stood still', { ttl: 30_000 }), once())
  const shown = driver.inspect('stood still')
  // Both leave now. Nothing is read here until the server has carried them out, and their time is over.
  await new Promise(process.nextTick)
  const script = `
    const began = performance.now()
    const socket = require('node:net').connect(${server.port}, '127.0.0.1')
    const look = () => socket.write('EXISTS "hf:{stood still}"\\r\\n')
    socket.on('connect', look)
    socket.on('data', (text) => {
      if (String(text).startsWith(':1') && performance.now() - began > 400) process.exit()
      setTimeout(look, 20)
    })`
  const { status } = spawnSync(process.execPath, ['-e', script], { timeout: 20_000, stdio: 'inherit' })
  assert.equal(status, 0)
  const grant = await asked
  assert.ok(grant, 'the answer was there')
  assert.ok((await shown).holders.length <= 1)
  assert.equal(await grant.release(), 'released')
})

test('D17: the data of an unused lock expire by themselves, and those of a lock in use stay', async (t) => {
  const { locks, client } = peer(t, server.port, { retention: 1_000 })
  const lease = await locks.mutex('d17').acquire()
  assert.equal(await client.pttl('hf:{d17}'), -1)
  await lease.release()
  await until(async () => (await client.exists('hf:{d17}')) === 0)
})

test('D18: a hundred waiters of one process share two connections', async (t) => {
  const own = await startRedis()
  t.after(() => own.stop())
  const [holder, many] = [peer(t, own.port), peer(t, own.port)]
  const lease = await holder.locks.mutex('d18').acquire()
  const waits = Array.from({ length: 100 }, () =>
    many.locks.mutex('d18').run(() => undefined, { fair: true }),
  )
  await reachable(own, 'd18', 100)
  // Two of each process, and the one that asks.
  const open = String(await own.cli('CLIENT', 'LIST'))
    .trim()
    .split('\n')
  assert.ok(open.length <= 5, `${open.length} connections`)
  await lease.release()
  await Promise.all(waits)
})

/** Bytes that were on their way reach the server now, from nowhere. */
async function deliver(bytes: Buffer): Promise<void> {
  const socket = connect(server.port, '127.0.0.1')
  socket.write(bytes)
  await new Promise((resolve) => socket.once('data', resolve))
  socket.destroy()
}

after(leakCheck)
