// Every race of the direct hand-off, reproduced on a real server.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Locks } from '../../../src/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { claim, type TestWait, waiting } from '../support/asking.js'
import { passesUntil } from '../support/passes.js'
import { commands, driverOf, type Peer, pause, peer, reachable, withoutLooking } from './support/peer.js'

const server = await startRedis({ preload: ['clock'] })
after(() => server.stop())

const never = new AbortController().signal

/** A driver behind two cables: one for its commands, one for what is pushed to it. */
async function wired(
  t: TestContext,
  options: Parameters<typeof driverOf>[2] = {},
): Promise<Peer & { readonly talk: TcpProxy; readonly hear: TcpProxy }> {
  const [talk, hear] = [await startProxy({ port: server.port }), await startProxy({ port: server.port })]
  // Its own copies of the subscriber go where the subscriber goes.
  const subscriber = driverOf(t, hear.port, { ioredis: { lazyConnect: true } }).client
  await subscriber.connect()
  const wired = driverOf(t, talk.port, { subscriber, ...options })
  t.after(async () => {
    await talk.stop()
    await hear.stop()
  })
  return { ...wired, talk, hear }
}

/** Waits once, so that it has a subscription from then on. */
async function opened({ mutex }: Locks, t: TestContext, name: string): Promise<void> {
  const first = await held(t, name)
  const waited = mutex(name).acquire()
  await inLine(name)
  await first.release()
  await (await waited).release()
}

/** The same for a driver alone: what it asks from then on it asks once, and nothing of it is on its way when it can be reached. */
async function eared({ driver }: Peer, t: TestContext, name: string): Promise<void> {
  const before = await held(t, name)
  const wait = waiting()
  const asked = driver.acquire(claim(name), wait)
  await inLine(name)
  wait.end()
  await asked
  await before.release()
}

/** Somebody is queued for `name` and can be reached. */
const inLine = (name: string, count = 1) => reachable(server, name, count)

/** Nobody looks again so soon by himself, and no claim runs out so soon: it came of what the test is about. */
const soon = { within: 15_000 }

async function held(t: TestContext, name: string, ttl = 30_000) {
  const { driver } = driverOf(t, server.port)
  const grant = await driver.acquire(claim(name, { ttl }), waiting())
  assert.ok(grant)
  return grant
}

for (const [what, lockOf] of [
  ['mutex', ({ mutex }: Locks, name: string) => mutex(name)],
  ['reader', ({ readWrite }: Locks, name: string) => readWrite(name).read],
  ['permit', ({ semaphore }: Locks, name: string) => semaphore(name, { permits: 1 })],
] as const) {
  test(`a ${what} that was handed over is worth its ttl at once, as a free one is`, async (t) => {
    const [a, b] = [peer(t, server.port), peer(t, server.port)]
    const name = `worth ${what}`
    const first = await (what === 'reader' ? a.locks.readWrite(name).write : lockOf(a.locks, name)).acquire()
    assert.ok(first.remaining() >= 27_000, `${first.remaining()} ms`)
    const asked = lockOf(b.locks, name).acquire({ autoRenew: false })
    await inLine(name)
    await first.release()
    const lease = await asked
    assert.ok(lease.remaining() >= 27_000, `${lease.remaining()} ms`)
    lease.assertHeld(27_000)
    await lease.release()
  })
}

test('a hand-over is two commands: the release, and one request of the next waiter', async (t) => {
  const a = peer(t, server.port)
  const b = peer(t, server.port, { env: { clock: withoutLooking() } })
  await opened(b.locks, t, 'before the short')
  const lease = await a.locks.mutex('short').acquire()
  const asked = b.locks.mutex('short').acquire()
  await inLine('short')
  await commands(a.client)
  await lease.release()
  const next = await asked
  assert.deepEqual(await commands(a.client), { evalsha: 2 })
  await next.release()
})

test('dead waiter gets the lock: a killed process is skipped at once', async (t) => {
  const first = await held(t, 'dead')
  const living = driverOf(t, server.port, { env: { clock: withoutLooking() } })
  const subscriber = driverOf(t, server.port).client
  // Granted to it by mistake, the lock would be taken for ten minutes.
  const dying = driverOf(t, server.port, { subscriber })
  void dying.driver.acquire(claim('dead', { ttl: 600_000 }), waiting()).catch(() => undefined)
  await inLine('dead', 1)
  const channel = /hf:c:\S+/.exec(String(await server.cli('HVALS', 'hf:{dead}')))?.[0] ?? assert.fail()
  const asked = living.driver.acquire(claim('dead', { ttl: 30_000 }), waiting())
  await inLine('dead', 2)
  const listening = async () => ((await server.cli('PUBSUB', 'NUMSUB', channel)) as unknown[])[1]
  dying.client.disconnect()
  subscriber.disconnect()
  await until(async () => (await listening()) === 0)
  let grant: Awaited<typeof asked>
  void asked.then((granted) => {
    grant = granted
  })
  await first.release()
  await until(() => grant, soon)
  assert.equal(await grant?.release(), 'released')
})

test('dead waiter gets the lock: one that is stopped but connected costs its ttl', async (t) => {
  const first = await held(t, 'stopped')
  const stopped = await wired(t, { commandTimeout: 200 })
  const ttl = 600
  void stopped.driver.acquire(claim('stopped', { ttl }), waiting()).catch(() => undefined)
  await inLine('stopped', 1)
  const { driver } = driverOf(t, server.port, { env: { clock: withoutLooking() } })
  const asked = driver.acquire(claim('stopped', { ttl: 30_000 }), waiting())
  await inLine('stopped', 2)
  stopped.talk.blackHole()
  stopped.hear.blackHole()
  const began = performance.now()
  await first.release()
  // It was told how long that can last: its own look comes later, and rings for nobody here.
  const grant = await asked
  const took = performance.now() - began
  assert.ok(took > ttl * 0.9, `after ${took} ms`)
  assert.equal(await grant?.release(), 'released')
})

test('publish lost: the waiter polls when its subscription is back, and finds itself the holder', async (t) => {
  const first = await held(t, 'lost push')
  const { driver, hear } = await wired(t, { env: { clock: withoutLooking() } })
  const asked = driver.acquire(claim('lost push', { ttl: 30_000 }), waiting())
  await inLine('lost push')
  hear.down.drop()
  await first.release()
  hear.heal()
  const grant = await asked
  assert.equal(await grant?.release(), 'released')
})

test('publish lost permanently: the safety poll notices', async (t) => {
  const first = await held(t, 'never pushed')
  const { driver, hear } = await wired(t)
  const asked = driver.acquire(claim('never pushed', { ttl: 30_000 }), waiting())
  await inLine('never pushed')
  hear.down.drop()
  await first.release()
  const grant = await asked
  assert.equal(await grant?.release(), 'released')
})

test('fairness: a waiter whose subscriber is reconnecting is passed over and keeps its position', async (t) => {
  const first = await held(t, 'passed over')
  // Nor does it poll while its subscription is lost: then the lock would be kept for it, and not handed to the next.
  const { driver, hear } = await wired(t, { env: { clock: withoutLooking() } })
  const away = claim('passed over', { ttl: 30_000 })
  const asked = driver.acquire(away, waiting())
  await inLine('passed over', 1)
  const [second, third] = [driverOf(t, server.port).driver, driverOf(t, server.port).driver]
  const next = second.acquire(claim('passed over', { ttl: 30_000 }), waiting())
  await inLine('passed over', 2)
  const last = third.acquire(claim('passed over', { ttl: 30_000 }), waiting())
  await inLine('passed over', 3)
  hear.refuse()
  hear.reset()
  await until(
    async () =>
      ((await server.cli('CLIENT', 'LIST', 'TYPE', 'pubsub')) as string).trim().split('\n').length === 2,
  )
  await first.release()
  const granted = await next
  assert.ok(granted)
  const place = async () => String(await server.cli('HGET', 'hf:{passed over}', `w:${away.attempt}`))
  const before = await place()
  await hear.accept()
  await until(async () => (await place()) !== before && (await place()).includes(' hf:c:'))
  await granted.release()
  const back = await Promise.race([asked.then(() => 'first'), last.then(() => 'last')])
  assert.equal(back, 'first')
  await (await asked)?.release()
  await (await last)?.release()
})

test('fairness: a waiter whose subscriber is at another server is not passed over: it polls, and the lock stays free for it', async (t) => {
  const elsewhere = await startRedis()
  t.after(() => elsewhere.stop())
  const subscriber = driverOf(t, elsewhere.port).client
  const { driver } = driverOf(t, server.port, { subscriber })
  const first = await held(t, 'deaf')
  const deaf = claim('deaf', { ttl: 30_000 })
  const asked = driver.acquire(deaf, waiting())
  const listens = async () => (await elsewhere.cli('PUBSUB', 'CHANNELS')) as string[]
  await until(async () => (await listens()).length === 1)
  // It has asked again since it thinks that it can be reached.
  const asks = async () =>
    Number(String(await server.cli('HGET', 'hf:{deaf}', `w:${deaf.attempt}`)).split(' ')[5])
  const before = await asks()
  await until(async () => (await asks()) > before)
  const next = driverOf(t, server.port).driver.acquire(claim('deaf', { ttl: 30_000 }), waiting())
  await until(async () => (await driver.inspect('deaf')).waiters.length === 2)
  await first.release()
  const served = await Promise.race([asked.then(() => 'first'), next.then(() => 'second')])
  assert.equal(served, 'first')
  await (await asked)?.release()
  await (await next)?.release()
})

test('fairness: a waiter granted past an absent one knows that others wait', async (t) => {
  const first = await held(t, 'beside')
  const [away, back] = [
    await wired(t, { env: { clock: withoutLooking() } }),
    await wired(t, { env: { clock: withoutLooking() } }),
  ]
  const late = away.driver.acquire(claim('beside', { ttl: 30_000 }), waiting())
  await inLine('beside', 1)
  const asked = back.driver.acquire(claim('beside', { ttl: 30_000 }), waiting())
  await inLine('beside', 2)
  for (const { hear } of [away, back]) {
    hear.refuse()
    hear.reset()
  }
  await until(async () => (await server.cli('CLIENT', 'LIST', 'TYPE', 'pubsub')) === '')
  await first.release()
  await back.hear.accept()
  const grant = await asked
  assert.equal(grant?.contended?.(), true, 'it would pass the lock on inside its process without a bound')
  await away.hear.accept()
  await grant?.release()
  await (await late)?.release()
})

test('a holder whose process has never waited learns of a forced release at its next renewal, not before', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('never waited').acquire({ ttl: 60_000 })
  assert.equal(await b.locks.forceRelease('never waited'), 1)
  // Its connection has carried answers since.
  assert.deepEqual((await a.driver.inspect('never waited')).holders, [])
  assert.ok(lease.isHeld)
  await assert.rejects(lease.extend(), { code: 'LEASE_LOST' })
  assert.equal(lease.isHeld, false)
})

/** The subscription of `wired` has ended, and cannot open again. */
async function deafen({ hear }: { readonly hear: TcpProxy }): Promise<void> {
  hear.refuse()
  hear.reset()
  await until(async () => (await server.cli('CLIENT', 'LIST', 'TYPE', 'pubsub')) === '')
}

test('a forced release while the subscription is away is found as soon as it is back', async (t) => {
  const [holder, operator] = [await wired(t), peer(t, server.port)]
  await opened(holder.locks, t, 'forced while away')
  const { signal } = await holder.locks.mutex('forced while away').acquire({ ttl: 60_000 })
  await deafen(holder)
  assert.equal(await operator.locks.forceRelease('forced while away'), 1)
  assert.equal(signal.aborted, false)
  await holder.hear.accept()
  await until(() => signal.aborted, soon)
  assert.equal(signal.reason.why, 'revoked')
})

test('a lock that was granted while the subscription was away: its holder is notified of a forced release', async (t) => {
  const [holder, operator] = [await wired(t), peer(t, server.port)]
  await opened(holder.locks, t, 'granted while away')
  await deafen(holder)
  const { signal } = await holder.locks.mutex('granted while away').acquire({ ttl: 60_000 })
  await holder.hear.accept()
  await opened(holder.locks, t, 'another')
  assert.equal(await operator.locks.forceRelease('granted while away'), 1)
  await until(() => signal.aborted, soon)
  assert.equal(signal.reason.why, 'revoked')
})

test('a waiter that is paused for longer than its ttl just as it is granted the lock queues again, at the end', async (t) => {
  const first = await held(t, 'stands still')
  const still = await wired(t, { env: { clock: withoutLooking() } })
  const asked = still.driver.acquire(claim('stands still', { ttl: 1_000 }), waiting())
  await inLine('stands still', 1)
  const [second, third] = [driverOf(t, server.port), driverOf(t, server.port)]
  const next = second.driver.acquire(claim('stands still', { ttl: 60_000 }), waiting())
  await inLine('stands still', 2)
  const last = third.driver.acquire(claim('stands still', { ttl: 60_000 }), waiting())
  await inLine('stands still', 3)
  still.talk.up.hold()
  await first.release()
  const granted = await next
  assert.ok(granted, 'the grant ended like the lease of a silent holder')
  still.talk.up.pass()
  const waiters = async () => (await second.driver.inspect('stands still')).waiters.length
  await until(async () => (await waiters()) === 2, soon)
  await granted.release()
  const served = await Promise.race([asked.then(() => 'it'), last.then(() => 'the one behind it')])
  assert.equal(served, 'the one behind it')
  await (await last)?.release()
  await (await asked)?.release()
})

test('an operator takes it, and the order comes twice: the next holder keeps it', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const cable = await startProxy({ port: server.port })
  const operator = peer(t, cable.port)
  t.after(() => cable.stop())
  // The server knows the script.
  assert.equal(await operator.locks.forceRelease('not taken'), 0)
  await a.locks.mutex('taken').acquire({ ttl: 60_000 })
  const next = b.locks.mutex('taken').acquire({ ttl: 60_000 })
  await inLine('taken')
  // The client sends again what was not answered before its connection broke.
  cable.down.hold()
  const ended = operator.locks.forceRelease('taken')
  const lease = await next
  cable.reset()
  cable.down.pass()
  assert.equal(await ended, 1)
  assert.ok((await lease.extend()) > 0)
  assert.equal(await lease.release(), 'released')
})

test('push and poll both grant: the result is one lease with one token', async (t) => {
  const first = await held(t, 'both')
  const { driver, hear } = await wired(t)
  const asked = driver.acquire(claim('both', { ttl: 30_000 }), waiting())
  await inLine('both')
  // The push is late enough to be doubted, so it is asked as well; then it arrives once more.
  hear.down.hold()
  await first.release()
  const [chunk] = await hear.down.holding()
  assert.ok(chunk)
  await pause(300)
  hear.down.letGo()
  const grant = await asked
  assert.ok(grant)
  const [holder, ...others] = (await driver.inspect('both')).holders
  assert.equal(holder?.token, grant.token)
  assert.equal(others.length, 0)
  assert.ok(grant.validUntil - performance.now() > 10_000, 'confirmed for the full ttl')
  assert.equal(await grant.release(), 'released')
})

test('push before the reply to the request: the waiter polls again, and both replies make one lease', async (t) => {
  const wires = await wired(t)
  const { driver, talk } = wires
  await eared(wires, t, 'early')
  const first = await held(t, 'early')
  talk.down.hold()
  const asked = driver.acquire(claim('early', { ttl: 30_000 }), waiting())
  await inLine('early')
  await first.release()
  await talk.down.holding(2)
  talk.down.pass()
  const grant = await asked
  const { holders } = await driver.inspect('early')
  assert.deepEqual(
    holders.map(({ token }) => token),
    [grant?.token],
  )
  assert.equal(await grant?.release(), 'released')
})

test('“somebody waits” before the answer to the request: the lock is not kept for this process alone', async (t) => {
  const { locks, talk, hear } = await wired(t)
  await opened(locks, t, 'heard early')
  const b = peer(t, server.port)
  talk.down.hold()
  const asked = locks.mutex('told early').acquire()
  await until(async () => (await b.driver.inspect('told early')).holders.length === 1)
  const heard = hear.down.bytes
  const other = b.locks.mutex('told early').acquire({ wait: 60_000 })
  await inLine('told early')
  await until(() => hear.down.bytes > heard)
  // It has left the cable; should it be read later than the answer, the test shows less, and does not fail.
  await pause(20)
  talk.down.pass()
  assert.ok((await passesUntil(locks.mutex('told early'), await asked, other)) <= 17)
})

test('“an operator took it” before the answer to the request: the lease that comes of it is another', async (t) => {
  const { locks, talk, hear } = await wired(t)
  await opened(locks, t, 'taken early')
  const b = peer(t, server.port)
  talk.down.hold()
  const asked = locks.mutex('taken').acquire()
  await until(async () => (await b.driver.inspect('taken')).holders.length === 1)
  const [first] = (await b.driver.inspect('taken')).holders
  const heard = hear.down.bytes
  assert.equal(await b.locks.forceRelease('taken'), 1)
  await until(() => hear.down.bytes > heard)
  await pause(20)
  talk.down.pass()
  const lease = await asked
  const [now] = (await b.driver.inspect('taken')).holders
  assert.equal(lease.token, now?.token)
  assert.ok(lease.token > (first?.token ?? Number.POSITIVE_INFINITY))
  assert.equal(await lease.release(), 'released')
})

test('handed to an attempt that was given up: its cancel ends the hold, and the next waiter has the lock at once', async (t) => {
  const first = await held(t, 'declined')
  const { driver, talk, hear } = await wired(t, { commandTimeout: 300 })
  const wait = waiting()
  const asked = driver.acquire(claim('declined', { ttl: 30_000 }), wait)
  await inLine('declined', 1)
  const deaf = { env: { clock: withoutLooking() } }
  const other = driverOf(t, server.port, deaf).driver.acquire(claim('declined', { ttl: 30_000 }), waiting())
  await inLine('declined', 2)
  // The cancel does not get through, the push does.
  talk.up.drop()
  wait.end()
  assert.equal(await asked, undefined)
  const heard = hear.down.bytes
  await first.release()
  await until(() => hear.down.bytes > heard)
  let grant: Awaited<typeof other>
  void other.then((granted) => {
    grant = granted
  })
  talk.heal()
  await until(() => grant, {
    ...soon,
    what: 'the other to be granted, long before the ttl of half a minute runs out',
  })
  assert.equal(await grant?.release(), 'released')
})

test('push later than its ttl: the waiter does not enter, polls, and is queued again', async (t) => {
  const first = await held(t, 'stale push')
  const wires = await wired(t, { env: { clock: withoutLooking() } })
  const { driver, hear } = wires
  // A request that is on its way when the push is would find that it is granted.
  await eared(wires, t, 'before the stale push')
  const asked = driver.acquire(claim('stale push', { ttl: 300 }), waiting())
  await inLine('stale push')
  hear.down.hold()
  await first.release()
  await hear.down.holding()
  const second = await held(t, 'stale push')
  hear.down.pass()
  await inLine('stale push')
  assert.equal(await Promise.race([asked, pause(50)]), undefined, 'entered although somebody else holds it')
  await second.release()
  const grant = await asked
  assert.ok(grant && grant.token > second.token)
  assert.equal(await grant.release(), 'released')
})

test('cancel while being handed: exactly one of the two happens, and nothing is left', async (t) => {
  const outcomes = new Set<string>()
  for (let i = 0; i < 60; i++) {
    const name = `cancelled ${i}`
    const [a, b] = [driverOf(t, server.port), driverOf(t, server.port)]
    const first = await a.driver.acquire(claim(name, { ttl: 30_000 }), waiting())
    const wait: TestWait = waiting()
    const asked = b.driver.acquire(claim(name, { ttl: 30_000 }), wait)
    await inLine(name)
    const released = first?.release()
    if (i % 3 === 1) await pause(0)
    if (i % 3 === 2) await released
    wait.end()
    const grant = await asked
    outcomes.add(grant === undefined ? 'cancelled' : 'granted')
    assert.equal((await grant?.release()) ?? 'released', 'released')
    await released
    const { holders, waiters } = await a.driver.inspect(name)
    assert.deepEqual({ holders, waiters }, { holders: [], waiters: [] })
    await a.close()
    await b.close()
  }
  assert.ok(outcomes.has('cancelled'))
})

test('the holder expires without a release: the first waiter polls when the hold expires', async (t) => {
  await held(t, 'expiring', 400)
  const { driver } = driverOf(t, server.port, { env: { clock: withoutLooking() } })
  const grant = await driver.acquire(claim('expiring', { ttl: 30_000 }), waiting())
  assert.equal(await grant?.release(), 'released')
})

test('the holder renews at the same moment as the first waiter polls: one of them has it', async (t) => {
  for (let i = 0; i < 10; i++) {
    const name = `at once ${i}`
    const first = await held(t, name, 60)
    const wait = waiting()
    const asked = driverOf(t, server.port).driver.acquire(claim(name, { ttl: 30_000 }), wait)
    await pause(50 + i * 2)
    const renewed = await first.renew(200, never)
    const before = first.validUntil
    const grant = await asked
    // A renewal that succeeded kept the other out until its deadline.
    if (renewed !== undefined) assert.ok(performance.now() >= before)
    assert.ok(grant && grant.token > first.token)
    await grant.release()
  }
})

test('wall clock set forward between request and grant: the deadline counts from the poll after the push', async (t) => {
  const first = await held(t, 'forward')
  const { driver } = driverOf(t, server.port)
  const asked = driver.acquire(claim('forward', { ttl: 600_000 }), waiting())
  await inLine('forward')
  server.clockJump(20_000)
  t.after(() => server.clockJump(-20_000))
  await first.release()
  const grant = await asked
  assert.ok(grant)
  const left = grant.validUntil - performance.now()
  assert.ok(left > 590_000 && left <= 600_000, `${left} ms`)
  assert.equal(await grant.release(), 'released')
})

test('messages are small: one push is under 40 bytes, whatever the name', async (t) => {
  const first = await held(t, 'tenants/42/invoices/2026-11')
  const { driver } = driverOf(t, server.port)
  const listener = driverOf(t, server.port).client
  const pushes: string[] = []
  listener.on('pmessage', (_pattern, _channel, text) => pushes.push(text))
  await listener.psubscribe('hf:c:*')
  const asked = driver.acquire(claim('tenants/42/invoices/2026-11', { ttl: 30_000 }), waiting())
  await inLine('tenants/42/invoices/2026-11')
  await first.release()
  await (await asked)?.release()
  const grants = await until(() => {
    const some = pushes.filter((push) => push.startsWith('g '))
    return some.length > 0 && some
  })
  assert.equal(grants.length, 1)
  assert.ok((grants[0]?.length ?? 0) < 40, `${grants[0]?.length} bytes`)
})

after(leakCheck)
