// Waiting without pushes: no subscriber wanted, or no right to channels.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from '../../../src/create-locks.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { claim, waiting } from '../support/asking.js'
import { driverOn, open } from './support/clients.js'
import { commands, pause, peer, reachable, withoutLooking } from './support/peer.js'

const server = await startRedis()
after(() => server.stop())

test('subscriber: false never subscribes, and waiting works by polling', async (t) => {
  const peers = Array.from({ length: 4 }, () => peer(t, server.port, { subscriber: false }))
  let inside = 0
  let taken = 0
  await Promise.all(
    peers.map(async ({ locks }) => {
      for (let i = 0; i < 5; i++) {
        await locks.mutex('polled').run(async () => {
          assert.equal(++inside, 1)
          await pause(2)
          inside--
          taken++
        })
      }
    }),
  )
  assert.equal(taken, 20)
  assert.deepEqual(await peers[0]?.client.pubsub('CHANNELS'), [])
})

test('polling waiters are served first come, first served', async (t) => {
  const [holder, ...others] = Array.from({ length: 5 }, () => peer(t, server.port, { subscriber: false }))
  assert.ok(holder)
  const lease = await holder.locks.mutex('in order').acquire()
  const order: number[] = []
  const waits: Promise<void>[] = []
  for (const [i, { locks }] of others.entries()) {
    waits.push(locks.mutex('in order').run(() => void order.push(i), { fair: true }))
    await until(async () => (await holder.locks.inspect('in order')).waiters.length === i + 1)
  }
  await lease.release()
  await Promise.all(waits)
  assert.deepEqual(order, [0, 1, 2, 3])
})

test('the first waiter polls often, the others seldom', async (t) => {
  const [holder, ...others] = Array.from({ length: 8 }, () => peer(t, server.port, { subscriber: false }))
  assert.ok(holder)
  const lease = await holder.locks.mutex('seldom').acquire()
  const waits = others.map(({ locks }) => locks.mutex('seldom').run(() => undefined))
  await until(async () => (await holder.locks.inspect('seldom')).waiters.length === 7)
  await pause(500)
  const from = performance.now()
  await commands(holder.client)
  await pause(1_000)
  let evalsha = 0
  await until(async () => {
    evalsha += (await commands(holder.client)).evalsha ?? 0
    return evalsha > 10
  })
  const passed = performance.now() - from
  // The first every 80 ms or later, the second too, the third every 120 ms, and so on up to 240 ms; each has one on its way.
  assert.ok(evalsha < passed * 0.055 + 7, `${evalsha} commands in ${passed} ms for seven waiters`)
  await lease.release()
  await Promise.all(waits)
})

test('a polling waiter that died blocks a free lock until it has been silent for two seconds, not for its ttl', async (t) => {
  const [holder, dying, living] = [
    peer(t, server.port),
    peer(t, server.port, { subscriber: false }),
    peer(t, server.port, { subscriber: false }),
  ]
  const lease = await holder.locks.mutex('dying').acquire()
  void dying.locks
    .mutex('dying')
    .acquire({ ttl: 600_000 })
    .catch(() => undefined)
  await until(async () => (await holder.locks.inspect('dying')).waiters.length === 1)
  const asked = living.locks.mutex('dying').acquire()
  await until(async () => (await holder.locks.inspect('dying')).waiters.length === 2)
  dying.client.disconnect()
  await lease.release()
  const next = await asked
  await next.release()
})

test('a lock reserved for a polling waiter admits compatible claims', async (t) => {
  const [holder, silent, other] = [
    peer(t, server.port),
    peer(t, server.port, { subscriber: false }),
    peer(t, server.port),
  ]
  const whole = await holder.locks.mutex('page').acquire()
  const seats = await holder.locks.semaphore('seats', { permits: 3 }).acquire({ permits: 3 })
  for (const wait of [
    silent.locks.readWrite('page').read.acquire(),
    silent.locks.semaphore('seats', { permits: 3 }).acquire(),
  ])
    wait.catch(() => undefined)
  await until(async () => (await holder.locks.inspect('page')).waiters.length === 1)
  await until(async () => (await holder.locks.inspect('seats')).waiters.length === 1)
  // It asks no more, and is thought alive for two seconds.
  silent.client.disconnect()
  const since = performance.now()
  await Promise.all([whole.release(), seats.release()])
  const reader = await other.locks.readWrite('page').read.tryAcquire()
  const writer = await holder.locks.readWrite('page').write.tryAcquire()
  const two = await other.locks.semaphore('seats', { permits: 3 }).tryAcquire({ permits: 2 })
  const third = await other.locks.semaphore('seats', { permits: 3 }).tryAcquire()
  assert.ok(reader, 'a reader was refused beside a reader')
  assert.equal(writer, undefined)
  assert.ok(two, 'permits that the waiter leaves were refused')
  if (performance.now() - since < 1_500) assert.equal(third, undefined, 'its permit was given away')
})

test('a waiter behind one that the lock is reserved for polls again when that waiter is given up', async (t) => {
  const [holder, silent, behind] = [
    peer(t, server.port),
    peer(t, server.port, { subscriber: false }),
    peer(t, server.port, { env: { clock: withoutLooking() } }),
  ]
  const seats = ({ locks }: typeof holder) => locks.semaphore('kept seats', { permits: 3 })
  const [stays, goes] = [
    await seats(holder).acquire({ ttl: 120_000 }),
    await seats(holder).acquire({ ttl: 120_000 }),
  ]
  const two = seats(silent).acquire({ permits: 2 })
  two.catch(() => undefined)
  await until(async () => (await holder.locks.inspect('kept seats')).waiters.length === 1)
  // It asks no more, and is thought alive for two seconds. The one that stays holds for two minutes.
  silent.client.disconnect()
  await goes.release()
  const next = await seats(behind).acquire({ wait: 20_000 })
  await next.release()
  await stays.release()
})

test('however many waiters it is reserved for, no incompatible claim is admitted', async (t) => {
  const [holder, silent, writer] = [
    peer(t, server.port),
    peer(t, server.port, { subscriber: false }),
    peer(t, server.port),
  ]
  const lease = await holder.locks.mutex('many').acquire()
  // One run of the script looks at 32 of them. Each asks by itself: readers of one process share a place.
  const waits = Array.from({ length: 32 }, () => waiting())
  for (const wait of waits)
    silent.driver
      .acquire(claim('many', { mode: { kind: 'shared' }, ttl: 30_000 }), wait)
      .catch(() => undefined)
  await until(async () => (await holder.locks.inspect('many')).waiters.length === 32)
  const next = writer.locks.mutex('many').acquire({ wait: 60_000 })
  await until(async () => (await holder.locks.inspect('many')).waiters.length === 33)
  silent.client.disconnect()
  const since = performance.now()
  await lease.release()
  // Other runs continue where the first one stopped.
  await pause(300)
  const { holders } = await holder.locks.inspect('many')
  if (performance.now() - since < 1_500) assert.deepEqual(holders, [], 'the writer passed 32 readers')
  await (await next).release()
  for (const wait of waits) wait.end()
})

test('without the right to channels it polls, warns once, and others do not wait for its pushes', async (t) => {
  const guarded = await startRedis()
  t.after(() => guarded.stop())
  await guarded.cli('ACL', 'SETUSER', 'mute', 'on', '>secret', '~hf:*', 'resetchannels', '+@all')
  const warned: string[] = []
  const note = (warning: Error & { code?: string }) => void warned.push(warning.code ?? '')
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  const mute = { ioredis: { username: 'mute', password: 'secret' } }
  const [a, b] = [peer(t, guarded.port, mute), peer(t, guarded.port, mute)]
  const hearing = peer(t, guarded.port, { env: { clock: withoutLooking() } })
  // Each of them waits for the other.
  for (const [one, other] of [
    [a, b],
    [b, a],
  ] as const) {
    const first = await one.locks.mutex('mute').acquire()
    const next = other.locks.mutex('mute').acquire()
    await until(async () => (await hearing.locks.inspect('mute')).waiters.length === 1)
    await first.release()
    await (await next).release()
  }
  let inside = 0
  const work = async () => {
    assert.equal(++inside, 1)
    await pause(1)
    inside--
  }
  await Promise.all(
    [a, b].map(async ({ locks }) => {
      for (let i = 0; i < 5; i++) await locks.mutex('mute').run(work)
    }),
  )
  await until(() => warned.filter((code) => code === 'HOLDFAST_REDIS_POLLING').length === 2)
  // It knows by now that it may not publish; one that can hear must not rely on it.
  const lease = await a.locks.mutex('mute').acquire()
  const asked = hearing.locks.mutex('mute').acquire()
  await reachable(guarded, 'mute', 1)
  await lease.release()
  // Nobody tells it, and what looks seldom does not ring here: it looks often.
  const next = await asked
  await next.release()
})

for (const library of ['ioredis', 'node-redis'] as const) {
  test(`a server without Pub/Sub is polled, and a warning says so (${library})`, async (t) => {
    const plain = await startRedis({
      args: ['--rename-command', 'SUBSCRIBE', '', '--rename-command', 'PUBLISH', ''],
    })
    t.after(() => plain.stop())
    const warned: string[] = []
    const note = (warning: Error & { code?: string }) => void warned.push(warning.code ?? '')
    process.on('warning', note)
    t.after(() => process.off('warning', note))
    const locks = [1, 2].map(() => {
      const made = createLocks(driverOn(open(library, { is: 'single', port: plain.port })))
      t.after(() => made.close())
      return made
    })
    let inside = 0
    const work = async () => {
      assert.equal(++inside, 1)
      await pause(5)
      inside--
    }
    await Promise.all(
      locks.flatMap((one) => [1, 2, 3].map(() => one.mutex('mute').run(work, { fair: true }))),
    )
    await until(() => warned.includes('HOLDFAST_REDIS_POLLING'))
  })
}

test('a subscriber of your own is used and stays open', async (t) => {
  const subscriber = peer(t, server.port).client
  const { locks, client } = peer(t, server.port, { subscriber })
  const other = peer(t, server.port)
  const lease = await other.locks.mutex('own subscriber').acquire()
  const asked = locks.mutex('own subscriber').acquire()
  await until(async () => String(await client.call('CLIENT', 'LIST')).includes('sub=1'))
  assert.equal((subscriber as unknown as { mode?: string }).mode !== undefined, true)
  await lease.release()
  await (await asked).release()
  await locks.close()
  await until(async () => !String(await client.call('CLIENT', 'LIST')).includes('sub=1'))
  assert.equal(subscriber.status, 'ready')
})

after(leakCheck)
