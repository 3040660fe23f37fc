// The single-server classics (H1–H14): replies that get lost, requests that arrive late, twice, or after their caller has
// gone. What the plain recipe does stands beside what ours does where the two differ.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import type { Redis } from 'ioredis'
import { commands, driverOf, pause, peer, reachable, withoutLooking } from '../drivers/redis/support/peer.js'
import { claim, waiting } from '../drivers/support/asking.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy, type TcpProxy } from '../support/proxy.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const server = await startRedis()
after(() => server.stop())

async function proxied(t: TestContext): Promise<TcpProxy> {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  return proxy
}

/** Bytes that were on their way reach the server now, from nowhere. */
async function deliver(bytes: Buffer): Promise<void> {
  const socket = connect(server.port, '127.0.0.1')
  socket.write(bytes)
  await new Promise((resolve) => socket.once('data', resolve))
  socket.destroy()
}

const plainAcquire = (client: Redis, key: string, id: string) => client.set(key, id, 'PX', 30_000, 'NX')

test('H1: a holder that dies right after the acquire leaves a deadline behind, never a lock for ever', async (t) => {
  const [dying, other] = [peer(t, server.port), peer(t, server.port)]
  // The plain way in two steps: the second one never comes.
  await dying.client.setnx('plain:h1', 'me')
  await dying.locks.mutex('h1').acquire({ ttl: 2_000, autoRenew: false })
  dying.client.disconnect()
  assert.equal(await other.client.pttl('plain:h1'), -1)
  const [holder] = (await other.locks.inspect('h1')).holders
  assert.ok(holder && holder.expiresIn <= 2_000)
  await other.locks.mutex('h1').run(() => undefined)
})

test('H2: a release after the lease has run out does not touch the next holder', async (t) => {
  const [a, b] = [driverOf(t, server.port).driver, driverOf(t, server.port).driver]
  const first = await a.acquire(claim('h2', { ttl: 100 }), waiting())
  const second = await b.acquire(claim('h2', { ttl: 30_000 }), waiting())
  assert.ok(first && second)
  assert.equal(await first.release(), 'lost')
  assert.equal(await first.renew(30_000, new AbortController().signal), undefined)
  assert.equal((await b.inspect('h2')).holders[0]?.token, second.token)
  assert.equal(await second.release(), 'released')
})

test('H3, H13: a release that arrives late meets another attempt and does nothing', async (t) => {
  const proxy = await proxied(t)
  const a = driverOf(t, proxy.port, { commandTimeout: 200 })
  const first = await a.driver.acquire(claim('h3', { ttl: 400 }), waiting())
  assert.ok(first)
  proxy.up.hold()
  await assert.rejects(first.release(), { code: 'BACKEND' })
  const b = driverOf(t, server.port).driver
  const second = await b.acquire(claim('h3', { ttl: 30_000 }), waiting())
  assert.ok(second)
  const calls = async () =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(await server.cli('INFO', 'commandstats')))?.[1])
  const before = await calls()
  proxy.up.letGo()
  await until(async () => (await calls()) > before, { what: 'the late release to arrive' })
  assert.equal((await b.inspect('h3')).holders[0]?.token, second.token)
  assert.equal(await second.release(), 'released')
})

test('H8, H9: twenty processes wait without polling, and a release wakes one of them', async (t) => {
  const options = { env: { clock: withoutLooking() } }
  const peers = Array.from({ length: 20 }, () => peer(t, server.port, options))
  const [first, ...others] = peers
  assert.ok(first)
  // Not renewed meanwhile.
  const lease = await first.locks.mutex('h8').acquire({ ttl: 600_000 })
  const waits = others.map(({ locks }) => locks.mutex('h8').acquire())
  await reachable(server, 'h8', 19)
  // Before they could be reached they asked often: what was on its way then has arrived.
  await until(async () => ((await commands(first.client)).evalsha ?? 0) === 0, { every: 300 })
  await pause(1_000)
  // Each says every four to six seconds that it is still there; here these timers do not ring, but any shorter would.
  const { evalsha: asked = 0 } = await commands(first.client)
  assert.equal(asked, 0, `${asked} commands in a second in which nothing changed`)
  await lease.release()
  const second = await Promise.race(waits)
  const { evalsha = 0 } = await commands(first.client)
  assert.ok(evalsha <= 2, `${evalsha} commands for one hand-over`)
  // In the order of the line, which is not that of the calls.
  const rest = waits.map(async (wait) => {
    const lease = await wait
    if (lease !== second) await lease.release()
  })
  await second.release()
  await Promise.all(rest)
})

test('a single attempt that was sent twice holds nothing after "not free"', async (t) => {
  const proxy = await proxied(t)
  const [a, b] = [peer(t, server.port), peer(t, proxy.port, { commandTimeout: 30_000 })]
  await b.locks.mutex('warm').run(() => undefined)
  const [lease, other] = [await a.locks.mutex('asked twice').acquire(), await a.locks.mutex('line').acquire()]
  let again = false
  proxy.up.hold((bytes) => /subscribe/i.test(`${bytes}`) || (again && /evalsha/i.test(`${bytes}`)))
  // It waits for something, so it opens its channel, which is up when we say so.
  const blocked = new Promise<void>((resolve) => {
    const stop = b.locks.on('waiting', () => {
      stop()
      resolve()
    })
  })
  const waits = b.locks.mutex('line').acquire()
  // Its reply must not pass for the one to the attempt.
  await Promise.all([proxy.up.holding(), blocked])
  proxy.down.hold((bytes) => !/subscribe/i.test(`${bytes}`))
  const attempt = b.locks.mutex('asked twice').tryAcquire()
  // The server has said "not free".
  await proxy.down.holding()
  again = true
  proxy.up.letGo(1)
  // Both ask once more, and say where they can be reached now.
  await proxy.up.holding()
  await lease.release()
  proxy.up.pass()
  proxy.down.pass()
  assert.equal(await attempt, undefined)
  assert.deepEqual((await a.locks.inspect('asked twice')).holders, [])
  await other.release()
  await (await waits).release()
})

test('H10, H11: the reply to a successful acquire is lost; the client retries and gets "yours, same token"', async (t) => {
  const proxy = await proxied(t)
  const { locks, client } = peer(t, proxy.port)
  await locks.mutex('warm').run(() => undefined)
  const direct = peer(t, server.port)
  proxy.down.drop()
  const plain = plainAcquire(client, 'plain:h10', 'me')
  const ours = locks.mutex('h10').acquire()
  const [holder] = await until(async () => {
    const { holders } = await direct.locks.inspect('h10')
    return holders.length > 0 && holders
  })
  await until(async () => (await direct.client.get('plain:h10')) === 'me')
  // The link lost bytes, so it breaks; the client connects again and sends both once more.
  proxy.heal()
  assert.equal(await plain, null, 'the plain recipe is told "taken" although it holds the lock')
  const lease = await ours
  assert.equal(lease.token, holder?.token)
  assert.equal(await lease.release(), 'released')
  await direct.client.del('plain:h10')
})

test('H11: whatever a reconnecting client sends twice counts once', async (t) => {
  const proxy = await proxied(t)
  const { driver, client } = driverOf(t, proxy.port, { commandTimeout: 20_000 })
  const direct = driverOf(t, server.port)
  // Held until all three have been released, however long six reconnects take.
  const semaphore = { mode: { kind: 'permits', take: 1, of: 3 }, ttl: 600_000 } as const
  const grants = []
  // After a reconnect it first asks which server that is; only then does it send anything else.
  const settled = async () => (await driver.acquire(claim('h11 other'), waiting()))?.release()
  // Held first: one that has not reached the proxy when that is healed would not be lost.
  const loseReply = async (done: () => Promise<boolean>) => {
    proxy.down.hold()
    await proxy.down.holding()
    assert.ok(await done(), 'it was carried out')
    proxy.down.drop()
    proxy.heal()
  }
  for (let i = 0; i < 3; i++) {
    await settled()
    const asked = driver.acquire(claim('h11', semaphore), waiting())
    await loseReply(async () => (await direct.driver.inspect('h11')).holders.length === i + 1)
    grants.push(await asked)
    await until(() => client.status === 'ready')
  }
  assert.equal((await direct.driver.inspect('h11')).holders.length, 3)
  for (const [i, grant] of grants.entries()) {
    const released = grant?.release()
    await loseReply(async () => (await direct.driver.inspect('h11')).holders.length === 2 - i)
    assert.equal(await released, 'already-released')
    await until(() => client.status === 'ready')
  }
})

test('H12: an acquire that arrives after its caller gave up does not take the lock', async (t) => {
  const proxy = await proxied(t)
  const direct = peer(t, server.port)
  const { locks, client } = peer(t, proxy.port, { commandTimeout: 100 })
  await locks.mutex('warm').run(() => undefined)
  proxy.up.hold()
  void plainAcquire(client, 'plain:h12', 'me').catch(() => undefined)
  await assert.rejects(locks.mutex('h12').acquire({ wait: 250 }), /h12|no answer/)
  const onTheWay = Buffer.concat((await proxy.up.holding()).map(({ bytes }) => bytes))
  assert.match(onTheWay.toString(), /hf:\{h12\}/)
  // The connection breaks with all that was on it; what its caller does to clean up goes over a new one.
  proxy.up.drop()
  proxy.heal()
  await client.del('plain:h12')
  await until(async () => (await direct.client.hget('hf:{h12}', 'x'))?.includes('~') === true)
  await deliver(onTheWay)
  assert.equal(
    await direct.client.get('plain:h12'),
    'me',
    'the plain recipe is taken by nobody for its whole ttl',
  )
  const lease = await direct.locks.mutex('h12').tryAcquire()
  assert.ok(lease, 'a request nobody waits for any more took the lock')
  await lease.release()
  await direct.client.del('plain:h12')
})

test('H14: every message of a hold that is delivered a second time is answered and changes nothing', async (t) => {
  const proxy = await proxied(t)
  const direct = driverOf(t, server.port)
  const { driver } = driverOf(t, proxy.port)
  const warm = await driver.acquire(claim('h14'), waiting())
  await warm?.release()
  const seen: Buffer[] = []
  const tapped = async <T>(work: Promise<T>): Promise<T> => {
    seen.push(Buffer.concat((await proxy.up.holding()).map(({ bytes }) => bytes)))
    proxy.up.letGo()
    return work
  }
  proxy.up.hold()
  const grant = await tapped(driver.acquire(claim('h14', { ttl: 10_000 }), waiting()))
  assert.ok(grant)
  await tapped(grant.renew(10_000, new AbortController().signal))
  const [acquired, renewed] = seen
  await deliver(acquired ?? Buffer.of())
  await deliver(renewed ?? Buffer.of())
  assert.deepEqual(
    (await direct.driver.inspect('h14')).holders.map(({ token }) => token),
    [grant.token],
  )
  assert.equal(await tapped(grant.release()), 'released')
  const next = await direct.driver.acquire(claim('h14', { ttl: 10_000 }), waiting())
  for (const bytes of seen) await deliver(bytes)
  const { holders, waiters } = await direct.driver.inspect('h14')
  assert.deepEqual(
    { tokens: holders.map(({ token }) => token), waiters: waiters.length },
    { tokens: [next?.token], waiters: 0 },
  )
  assert.equal(await next?.release(), 'released')
})

test('a late reply "not yours" to a release is not reported as a loss while nobody else could have taken the lock', async (t) => {
  const proxy = await proxied(t)
  const { driver, client } = driverOf(t, proxy.port, { commandTimeout: 20_000 })
  const others = driverOf(t, server.port).driver
  const grant = await driver.acquire(claim('late', { ttl: 30_000 }), waiting())
  assert.ok(grant)
  proxy.down.drop()
  const released = grant.release()
  await until(async () => (await others.inspect('late')).holders.length === 0)
  // So many have held it since that the server has forgotten who released it then.
  for (let i = 0; i < 6; i++) await (await others.acquire(claim('late'), waiting()))?.release()
  proxy.heal()
  assert.equal(await released, 'already-released')
  await until(() => client.status === 'ready')
})

after(leakCheck)
