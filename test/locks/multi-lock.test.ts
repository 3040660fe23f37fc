import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Lock } from 'holdfast'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'

after(leakCheck)

test('locks are taken one after the other in one order, whatever order they are given in', async () => {
  const s = script()
  const acquiring = s.locks.all([s.locks.mutex('b'), s.locks.mutex('c'), s.locks.mutex('a')]).acquire()
  for (const name of ['a', 'b', 'c']) {
    await settle()
    assert.equal(s.asked.at(-1)!.claim.name, name)
    s.asked.at(-1)!.grant()
  }
  const lease = await acquiring
  assert.deepEqual(
    lease.leases.map(({ name }) => name),
    ['b', 'c', 'a'],
    'the leases come in the order that was given',
  )
  assert.equal(lease.token, Math.max(...lease.leases.map(({ token }) => token)))
  assert.equal(lease.state, 'held')
  assert.equal(await lease.release(), 'released')
  assert.equal(await lease.release(), 'already-released')
})

test('one deadline holds for the whole, and what was taken is released before the caller hears of it', async () => {
  const s = script()
  const acquiring = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')]).acquire({ wait: 1_000 })
  await s.clock.advance(600)
  const a = s.asked[0]!.grant()
  await settle()
  assert.ok(s.asked[1]!.wait.remaining() <= 400)
  const rejected = assert.rejects(acquiring, (error: Error) => {
    assert.equal(a.releases, 1)
    assert.match(error.message, /no answer about "b" within 1000 ms/)
    return true
  })
  await s.clock.advance(400)
  await rejected
})

test('a try that misses one releases the others', async () => {
  const s = script()
  const trying = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')]).tryAcquire()
  await settle()
  const a = s.asked[0]!.grant()
  await settle()
  s.asked[1]!.nothing()
  assert.equal(await trying, undefined)
  assert.equal(a.releases, 1)
})

test('the loss of one is the loss of all', async () => {
  const s = script()
  const acquiring = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')]).acquire({ ttl: 9_000 })
  await settle()
  s.asked[0]!.grant()
  await settle()
  const b = s.asked[1]!.grant()
  const lease = await acquiring
  const { signal } = lease
  await s.clock.advance(3_000)
  b.renewals[0]!.gone()
  await settle()
  assert.equal(lease.state, 'lost')
  assert.equal(signal.aborted, true)
  assert.throws(() => lease.assertHeld(), { name: 'LeaseLostError', lock: 'b' })
  assert.equal(await lease.release(), 'lost')
})

test('inside run every part counts as held by this context', async () => {
  const s = script()
  const running = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')]).run(async () => {
    for (const name of ['a', 'b'])
      await assert.rejects(s.locks.mutex(name).acquire(), { name: 'DeadlockError' })
    return 7
  })
  await settle()
  s.asked[0]!.grant()
  await settle()
  s.asked[1]!.grant()
  assert.equal(await running, 7)
})

test('where the store can, they are one request, and their leases come in the order that was given', async () => {
  const s = script({ traits: { acquireMany: true } })
  const acquiring = s.locks.all([s.locks.mutex('b'), s.locks.mutex('a')]).acquire()
  await settle()
  assert.equal(s.asked.length, 0)
  assert.deepEqual(
    s.askedTogether[0]!.claims.map(({ name }) => name),
    ['a', 'b'],
  )
  s.askedTogether[0]!.grant()
  const lease = await acquiring
  assert.deepEqual(
    lease.leases.map(({ name, token }) => [name, token]),
    [
      ['b', 200],
      ['a', 100],
    ],
  )
  assert.equal(await lease.release(), 'released')
})

test('more than one step of the store can take are taken one after the other', async () => {
  const s = script({ traits: { acquireMany: true, maxBatch: 2 } })
  const [a, b, c] = ['a', 'b', 'c'].map((name) => s.locks.mutex(name)) as [Lock, Lock, Lock]
  const three = s.locks.all([a, b, c]).tryAcquire()
  for (const i of [0, 1, 2]) {
    await settle()
    s.asked[i]!.grant()
  }
  assert.equal(await (await three)?.release(), 'released')
  assert.equal(s.askedTogether.length, 0)
  const two = s.locks.all([a, b]).tryAcquire()
  await settle()
  s.askedTogether[0]!.grant()
  assert.equal(await (await two)?.release(), 'released')
})

test('a try that the store refuses ends; a wait continues in order', async () => {
  const s = script({ traits: { acquireMany: true } })
  const both = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')])
  const trying = both.tryAcquire()
  await settle()
  s.askedTogether[0]!.nothing()
  assert.equal(await trying, undefined)
  const acquiring = both.acquire()
  await settle()
  s.askedTogether[1]!.nothing()
  for (const i of [0, 1]) {
    await settle()
    s.asked[i]!.grant()
  }
  assert.equal(await (await acquiring).release(), 'released')
})

test('a store that does not reply is asked again in order for the other half of the time, which shows what is wrong', async () => {
  const s = script({ traits: { acquireMany: true } })
  const acquiring = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')]).acquire({ wait: 1_000 })
  await settle()
  const rejected = assert.rejects(acquiring, { code: 'UNAVAILABLE', message: /about "a" within 1000 ms/ })
  await s.clock.advance(500)
  assert.equal(s.askedTogether[0]!.wait.ended, true)
  const late = s.askedTogether[0]!.grant()
  await settle()
  assert.deepEqual(
    late.map(({ releases }) => releases),
    [1, 1],
    'what came too late is given back',
  )
  await s.clock.advance(500)
  await rejected
})

test('nobody asks the store together for what is in use or asked for in this process', async () => {
  const s = script({ traits: { acquireMany: true } })
  const both = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')])
  const acquiring = s.locks.mutex('b').acquire()
  await settle()
  const b = s.asked[0]!.grant()
  const lease = await acquiring
  assert.equal(await both.tryAcquire({ note: 'try' }).then((found) => found?.name), undefined)
  const waiting = both.acquire()
  await settle()
  assert.equal(s.askedTogether.length, 0)
  s.asked.at(-1)!.grant()
  await lease.release()
  assert.equal(b.releases, 1)
  await settle()
  s.asked.at(-1)!.grant()
  await (await waiting).release()
})

test('a wait is refused by a try of several as by any other', async () => {
  const s = script({ traits: { acquireMany: true } })
  const both = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')])
  await assert.rejects(both.tryAcquire({ wait: 5 } as never), /makes one attempt and takes no wait/)
  await assert.rejects(both.acquire({ signal: AbortSignal.abort(new Error('no')) }), /no/)
  await assert.rejects(both.acquire({ ttl: 0 }), RangeError)
  assert.equal(s.askedTogether.length, 0)
})

test('nothing, the same name twice, or what is not a lock is refused', () => {
  const { locks } = script()
  assert.throws(() => locks.all([]), /needs at least one lock/)
  assert.throws(() => locks.all([locks.mutex('a'), locks.readWrite('a').read]), /was given "a" twice/)
  assert.throws(() => locks.all([{} as never]), /item 0 is an object/)
  assert.throws(() => locks.all('a' as never), /takes an array of locks, got "a"/)
})
