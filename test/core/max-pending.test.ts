import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { memory } from '../../src/drivers/memory/index.js'
import { createLocks } from '../../src/index.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'

after(leakCheck)

const refusedAt = (maxPending: number, lock = 'm') => ({
  name: 'TooManyWaitersError',
  code: 'TOO_MANY_WAITERS',
  lock,
  maxPending,
})

test('a default of createLocks counts each name separately, and its error names the remedy', async () => {
  const s = script({ defaults: { maxPending: 2 } })
  const stop = new AbortController()
  const { signal } = stop
  const waits = ['m', 'm', 'n'].map((name) => s.locks.mutex(name).acquire({ signal }))
  await assert.rejects(s.locks.mutex('m').acquire(), {
    message:
      '2 or more callers in this process wait for "m", and maxPending is 2; try again later, or raise maxPending',
    publicMessage: 'too many callers wait for "m"; try again later',
  })
  waits.push(s.locks.mutex('n').acquire({ signal }))
  const ended = Promise.allSettled(waits)
  stop.abort()
  assert.deepEqual(
    (await ended).map(({ status }) => status),
    Array(4).fill('rejected'),
  )
})

test('requests that ask the store side by side count, those it has granted do not', async () => {
  const s = script()
  const stop = new AbortController()
  const fair = { fair: true, maxPending: 3, signal: stop.signal }
  const lock = s.locks.mutex('m')
  const waits = [1, 2, 3].map(() => lock.acquire(fair))
  await settle()
  assert.equal(s.asked.length, 3, 'each has a place of its own in the line of the store')
  await assert.rejects(lock.acquire(fair), refusedAt(3))
  await assert.rejects(lock.acquire({ maxPending: 3 }), refusedAt(3))
  s.asked[0]!.grant()
  const lease = await waits[0]!
  waits.push(lock.acquire(fair))
  await settle()
  assert.equal(s.asked.length, 4)
  await assert.rejects(lock.acquire(fair), refusedAt(3))
  await lease.release()
  const ended = Promise.allSettled(waits)
  stop.abort()
  await ended
})

test('a wait that has ended does not count although the driver has not answered yet', async () => {
  const s = script()
  const lock = s.locks.mutex('m', { maxPending: 1 })
  const first = lock.acquire({ wait: 100 })
  await settle()
  await assert.rejects(lock.acquire(), refusedAt(1))
  const ended = assert.rejects(first, { code: 'UNAVAILABLE' })
  await s.clock.advance(101)
  await ended
  const next = lock.acquire()
  await settle()
  assert.equal(s.asked.length, 2)
  await assert.rejects(lock.acquire(), refusedAt(1))
  s.asked[0]!.nothing()
  s.asked[1]!.grant()
  await (await next).release()
})

test('reentering a held lock is not a wait', async () => {
  await using locks = createLocks(memory(), { maxPending: 1 })
  const lock = locks.mutex('m')
  const lease = await lock.acquire()
  const waits = lock.acquire()
  await assert.rejects(lock.acquire(), refusedAt(1))
  await (await lock.acquire({ reentrant: lease })).release()
  await lease.release()
  await (await waits).release()
})

test('several locks release what they have when one of them is refused', async () => {
  await using locks = createLocks(memory())
  const held = await locks.mutex('b').acquire()
  const waits = locks.mutex('b').acquire()
  const both = locks.all([locks.mutex('a'), locks.mutex('b', { maxPending: 1 })])
  await assert.rejects(both.acquire(), refusedAt(1, 'b'))
  await (await locks.mutex('a').acquire({ wait: 0 })).release()
  await held.release()
  await (await waits).release()
})

test('a wait for several locks counts from its first request on, a single attempt at them does not', async () => {
  await using locks = createLocks(memory(), { maxPending: 1 })
  const both = locks.all([locks.mutex('a'), locks.mutex('b')])
  const attempt = both.tryAcquire()
  const first = both.acquire()
  await assert.rejects(both.acquire(), refusedAt(1, 'a'))
  await (await attempt)?.release()
  await (await first).release()
  const next = both.acquire()
  await assert.rejects(locks.mutex('b').acquire(), refusedAt(1, 'b'))
  await (await next).release()
})

test('a client that takes part in a barrier or a latch is not refused', async () => {
  await using locks = createLocks(memory(), { maxPending: 1 })
  const inside = await Promise.all([1, 2, 3].map(() => locks.barrier('b', 3).enter()))
  await Promise.all(inside.map((one) => one.leave()))
  await locks.latch('l').setCount(1, { keep: 1_000 })
  const work = await Promise.all([1, 2, 3].map(() => locks.latch('l').join()))
  await locks.latch('l').countDown()
  for (const lease of work) await lease.release()
  for (const make of [
    () => locks.barrier('b', 3, { maxPending: 5 } as object),
    () => locks.latch('l', { maxPending: 5 } as object),
  ])
    assert.throws(make, /unknown option "maxPending"; known are wait, ttl, /)
})

test('a caller that has begun to write, or to read with the pen, is not refused half-way', async () => {
  const store = memory()
  await using locks = createLocks(store, { maxPending: 1 })
  await using others = createLocks(store)
  const lock = locks.upgradeable('m')
  const upgradeable = await lock.upgradeable()
  const writer = others.readWrite('m').write.acquire()
  await settle()
  const late = lock.read.acquire()
  await assert.rejects(lock.read.acquire(), refusedAt(1))
  const upgraded = upgradeable.upgrade()
  await (await writer).release()
  await (await late).release()
  assert.equal(await upgraded, true)
  await upgradeable.release()
})

test('candidates of one process are bounded as waiters of any lock', async () => {
  await using locks = createLocks(memory(), { maxPending: 1 })
  const election = locks.election('e')
  const term = await election.campaign('a')
  const waits = election.campaign('b')
  await assert.rejects(election.campaign('c'), refusedAt(1, 'e'))
  await term.resign()
  await (await waits).resign()
})
