// What other libraries were seen to do under fault, each tried on ours. D-numbers as in the study of them; D3 and D5 are
// about several servers (redlock), D13 about files.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { startProxy } from '../../support/proxy.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { commands, pause, peer } from './support/peer.js'

const server = await startRedis()
after(() => server.stop())

test('D1: a holder that is cut off is told before anybody else has the lock', async (t) => {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  const [a, b] = [peer(t, proxy.port), peer(t, server.port)]
  const lease = await a.locks.mutex('d1').acquire({ ttl: 1_000 })
  let toldAt = 0
  lease.signal.addEventListener('abort', () => {
    toldAt = performance.now()
  })
  proxy.blackHole()
  const next = await b.locks.mutex('d1').acquire({ wait: 10_000 })
  const grantedAt = performance.now()
  assert.equal(lease.isHeld, false)
  assert.ok(toldAt > 0 && toldAt < grantedAt, `told ${toldAt - grantedAt} ms after the next one had it`)
  await next.release()
})

test('D2: kill -9 of the server ends no application, and it goes on when the server is back', async (t) => {
  const own = await startRedis()
  t.after(() => own.stop())
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  t.after(() => process.off('unhandledRejection', note))
  const { locks } = peer(t, own.port, { ttl: 500, maxTtl: 500, commandTimeout: 200 })
  const leases = await Promise.all(
    Array.from({ length: 20 }, (_, i) => locks.mutex(`d2 ${i}`).acquire({ ttl: 500 })),
  )
  const waiting = locks.mutex('d2 0').acquire({ wait: 20_000, ttl: 500 })
  await own.kill9()
  await until(() => leases.every((lease) => lease.state === 'lost'))
  await own.restart()
  const next = await waiting
  await next.release()
  assert.deepEqual(unhandled, [])
})

test('D4: a grant whose answer comes too late is not handed out as held', async (t) => {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  const { locks } = peer(t, proxy.port)
  await locks.mutex('warm').run(() => undefined)
  proxy.down.delay(700)
  const asked = locks.mutex('d4').acquire({ ttl: 500, wait: 10_000 })
  await pause(900)
  proxy.down.pass()
  const lease = await asked
  assert.ok(lease.isHeld && lease.remaining() > 100)
  assert.equal(await lease.release(), 'released')
})

test('D7: a short ttl is not renewed in a hot loop', async (t) => {
  const { locks, client } = peer(t, server.port)
  const lease = await locks.mutex('d7').acquire({ ttl: 1_000 })
  await commands(client)
  await pause(2_000)
  const { evalsha = 0 } = await commands(client)
  assert.ok(evalsha >= 4 && evalsha <= 10, `${evalsha} renewals in two seconds`)
  await lease.release()
})

test('D8: a failed extension does not delete the lock', async (t) => {
  const own = await startRedis()
  t.after(() => own.stop())
  const [a, b] = [peer(t, own.port), peer(t, own.port)]
  const lease = await a.locks.mutex('d8').acquire()
  await own.cli('CONFIG', 'SET', 'min-replicas-to-write', 1)
  await assert.rejects(lease.extend(), { code: 'BACKEND' })
  await own.cli('CONFIG', 'SET', 'min-replicas-to-write', 0)
  assert.equal(await b.locks.mutex('d8').tryAcquire(), undefined)
  assert.ok((await lease.extend()) > 20_000)
  assert.equal(await lease.release(), 'released')
})

test('D8: work that ends while a renewal is on its way returns its result and leaves no timer', async (t) => {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  const { locks } = peer(t, proxy.port)
  await locks.mutex('warm').run(() => undefined)
  const result = await locks.mutex('d8 run').run(
    async () => {
      await pause(250)
      proxy.down.delay(30)
      await pause(120)
      return 'done'
    },
    { ttl: 900 },
  )
  assert.equal(result, 'done')
})

test('D9: a token belongs to the grant it came with, whoever pauses when', async (t) => {
  const peers = Array.from({ length: 4 }, () => peer(t, server.port))
  const granted: number[] = []
  await Promise.all(
    peers.map(async ({ locks }) => {
      for (let i = 0; i < 25; i++) await locks.mutex('d9').run((lease) => void granted.push(lease.token))
    }),
  )
  assert.deepEqual(
    granted,
    [...new Set(granted)].sort((a, b) => a - b),
  )
})

test('D9: two servers in one process each push to their own waiters', async (t) => {
  const second = await startRedis()
  t.after(() => second.stop())
  for (const port of [server.port, second.port]) {
    const [a, b] = [peer(t, port), peer(t, port)]
    const lease = await a.locks.mutex('d9 two').acquire()
    const asked = b.locks.mutex('d9 two').acquire({ wait: 3_000 })
    await until(async () => (await a.locks.inspect('d9 two')).waiters.length === 1)
    await pause(50)
    const began = performance.now()
    await lease.release()
    await (await asked).release()
    assert.ok(performance.now() - began < 1_000)
  }
})

test('D9, D12: a release is told to one process only', async (t) => {
  const [a, ...others] = Array.from({ length: 6 }, () => peer(t, server.port))
  assert.ok(a)
  const lease = await a.locks.mutex('d12').acquire()
  const waits = others.map(({ locks }) => locks.mutex('d12').acquire())
  await until(async () => ((await a.client.pubsub('CHANNELS', 'hf:c:*')) as unknown[]).length >= 5)
  await until(async () => (await a.locks.inspect('d12')).waiters.length === 5)
  const ear = peer(t, server.port).client
  const grants: string[] = []
  ear.on('pmessage', (_pattern, channel, text) => text.startsWith('g ') && grants.push(channel))
  await ear.psubscribe('hf:c:*')
  await lease.release()
  const first = await Promise.race(waits)
  await pause(50)
  assert.equal(grants.length, 1)
  const rest = waits.map(async (wait) => {
    const lease = await wait
    if (lease !== first) await lease.release()
  })
  await first.release()
  await Promise.all(rest)
})

test('D11: a semaphore does not let one in because its own ttl is short', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const long = await a.locks.semaphore('d11', { permits: 1 }).acquire({ ttl: 60_000, autoRenew: false })
  assert.equal(await b.locks.semaphore('d11', { permits: 1 }).tryAcquire({ ttl: 100 }), undefined)
  await assert.rejects(b.locks.semaphore('d11', { permits: 1 }).acquire({ ttl: 100, wait: 500 }), {
    code: 'ACQUIRE_TIMEOUT',
  })
  assert.ok(long.isHeld)
  assert.equal(await long.release(), 'released')
})

test('D12: when one of many waiters of a process leaves, the others are still woken', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lock = b.locks.mutex('d12 many')
  const lease = await a.locks.mutex('d12 many').acquire()
  const leaving = Array.from({ length: 10 }, () => new AbortController())
  const gone = leaving.map(({ signal }) => lock.acquire({ signal }).catch((error) => error))
  const staying = Array.from({ length: 10 }, () => lock.run(() => undefined))
  await until(async () => (await a.locks.inspect('d12 many')).waiters.length === 1)
  for (const controller of leaving) controller.abort(new Error('gone'))
  for (const error of await Promise.all(gone)) assert.equal((error as Error).message, 'gone')
  await until(async () => (await a.locks.inspect('d12 many')).waiters.length === 1)
  const began = performance.now()
  await lease.release()
  await Promise.all(staying)
  assert.ok(performance.now() - began < 2_000)
})

test('D14: right after the event loop stood still, the lease knows that it is lost', async (t) => {
  const { locks } = peer(t, server.port)
  const lease = await locks.mutex('d14').acquire({ ttl: 300 })
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
  assert.equal(lease.isHeld, false)
  assert.throws(() => lease.assertHeld(), { code: 'LEASE_LOST' })
})

test("D15: the client's wall clock plays no part: an hour either way changes nothing", async (t) => {
  const real = Date.now
  t.after(() => {
    Date.now = real
  })
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  for (const jump of [3_600_000, -3_600_000]) {
    const lease = await a.locks.mutex('d15').acquire({ ttl: 600 })
    const asked = b.locks.mutex('d15').acquire({ wait: 10_000 })
    Date.now = () => real() + jump
    await pause(1_200)
    assert.ok(lease.isHeld, 'it was renewed twice meanwhile')
    assert.equal(await lease.release(), 'released')
    await (await asked).release()
    Date.now = real
  }
})

after(leakCheck)
