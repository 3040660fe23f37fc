// Failures observed in other libraries under faults, each tried on ours. D-numbers as in the study of them; D3 and D5 are
// about several servers (redlock), D13 about files.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { commands, peer, reachable, withoutLooking } from '../drivers/redis/support/peer.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const server = await startRedis()
after(() => server.stop())

test('D1: a holder that is cut off knows before anybody else has the lock, and is notified', async (t) => {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  const [a, b] = [peer(t, proxy.port), peer(t, server.port)]
  const lease = await a.locks.mutex('d1').acquire({ ttl: 1_000 })
  proxy.blackHole()
  const next = await b.locks.mutex('d1').acquire({ wait: 20_000 })
  assert.equal(lease.isHeld, false)
  await until(() => lease.signal.aborted)
  await next.release()
})

test('D2: kill -9 of the server ends no application, and locks work again when the server is back', async (t) => {
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

test('D4: a grant whose reply arrives too late is not handed out as held', async (t) => {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  const { locks } = peer(t, proxy.port)
  await locks.mutex('warm').run(() => undefined)
  const direct = peer(t, server.port)
  const holders = async () =>
    (await direct.locks.inspect('d4')).holders.filter(({ expiresIn }) => expiresIn > 0)
  proxy.down.hold()
  const asked = locks.mutex('d4').acquire({ ttl: 1_500, wait: 20_000 })
  await proxy.down.holding()
  const [late] = await holders()
  await until(async () => (await holders()).length === 0)
  proxy.down.pass()
  const lease = await asked
  assert.ok(lease.isHeld)
  assert.ok(lease.token > (late?.token ?? 0), 'another grant than the one whose answer was late')
  assert.equal(await lease.release(), 'released')
})

test('D7: a short ttl is not renewed in a hot loop', async (t) => {
  const { locks, client } = peer(t, server.port)
  const ttl = 3_000
  const lease = await locks.mutex('d7').acquire({ ttl })
  const from = performance.now()
  await commands(client)
  let renewed = 0
  locks.on('renewed', () => renewed++)
  await until(() => renewed >= 3, { within: 20_000 })
  const { evalsha = 0 } = await commands(client)
  // Every third of a ttl, a little earlier for the common beat.
  const most = (performance.now() - from) / (ttl / 5) + 1
  assert.ok(evalsha >= 3 && evalsha <= most, `${evalsha} renewals, at most ${most}`)
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

test('D8: work that ends while a renewal is in flight returns its result and leaves no timer', async (t) => {
  const proxy = await startProxy({ port: server.port })
  t.after(() => proxy.stop())
  const { locks } = peer(t, proxy.port)
  await locks.mutex('warm').run(() => undefined)
  const result = await locks.mutex('d8 run').run(
    async () => {
      proxy.down.hold()
      await proxy.down.holding()
      setImmediate(() => proxy.down.pass())
      return 'done'
    },
    { ttl: 3_000 },
  )
  assert.equal(result, 'done')
})

test('D9: a token belongs to the grant it came with, whichever process pauses', async (t) => {
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
    const [a, b] = [peer(t, port), peer(t, port, { env: { clock: withoutLooking() } })]
    const lease = await a.locks.mutex('d9 two').acquire()
    const asked = b.locks.mutex('d9 two').acquire({ wait: 20_000 })
    await reachable(port === server.port ? server : second, 'd9 two', 1)
    await lease.release()
    await (await asked).release()
  }
})

test('D9, D12: a release notifies one process only', async (t) => {
  const [a, ...others] = Array.from({ length: 6 }, () => peer(t, server.port))
  assert.ok(a)
  const lease = await a.locks.mutex('d12').acquire()
  const waits = others.map(({ locks }) => locks.mutex('d12').acquire())
  await reachable(server, 'd12', 5)
  const subscriber = peer(t, server.port).client
  const heard: string[] = []
  subscriber.on('pmessage', (_pattern, _channel, text) => heard.push(text))
  await subscriber.psubscribe('hf:c:*')
  await lease.release()
  const first = await Promise.race(waits)
  // What was published before this has been heard before it.
  await server.cli('PUBLISH', 'hf:c:end', 'end')
  await until(() => heard.includes('end'))
  assert.equal(heard.filter((text) => text.startsWith('g ')).length, 1)
  const rest = waits.map(async (wait) => {
    const lease = await wait
    if (lease !== first) await lease.release()
  })
  await first.release()
  await Promise.all(rest)
})

test('D11: a semaphore does not admit a client because its own ttl is short', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const long = await a.locks.semaphore('d11', { permits: 1 }).acquire({ ttl: 60_000, autoRenew: false })
  const short = b.locks.semaphore('d11', { permits: 1 })
  await assert.rejects(short.acquire({ ttl: 100, wait: 1_100 }), { code: 'ACQUIRE_TIMEOUT' })
  // The other one has held for longer than that by now. A try waits for its answer no longer than its ttl.
  assert.equal(await short.tryAcquire({ ttl: 1_000 }), undefined)
  assert.ok(long.isHeld)
  assert.equal(await long.release(), 'released')
})

test('D12: when one of many waiters of a process leaves, the others are still woken', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port, { env: { clock: withoutLooking() } })]
  const lock = b.locks.mutex('d12 many')
  const lease = await a.locks.mutex('d12 many').acquire()
  const leaving = Array.from({ length: 10 }, () => new AbortController())
  const gone = leaving.map(({ signal }) => lock.acquire({ signal }).catch((error) => error))
  const staying = Array.from({ length: 10 }, () => lock.run(() => undefined))
  await until(async () => (await a.locks.inspect('d12 many')).waiters.length === 1)
  for (const controller of leaving) controller.abort(new Error('gone'))
  for (const error of await Promise.all(gone)) assert.equal((error as Error).message, 'gone')
  await reachable(server, 'd12 many', 1)
  await lease.release()
  await Promise.all(staying)
})

test('D14: right after the event loop was blocked, the lease knows that it is lost', async (t) => {
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
    const lease = await a.locks.mutex('d15').acquire({ ttl: 3_000 })
    const asked = b.locks.mutex('d15').acquire({ wait: 20_000 })
    let renewed = 0
    const off = a.locks.on('renewed', () => renewed++)
    Date.now = () => real() + jump
    await until(() => renewed >= 2)
    off()
    assert.ok(lease.isHeld)
    assert.equal(await lease.release(), 'released')
    await (await asked).release()
    Date.now = real
  }
})

after(leakCheck)
