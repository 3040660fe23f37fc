import assert from 'node:assert/strict'
import { after, test } from 'node:test'
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

test('one deadline holds for the whole, and what was taken is given back before the caller hears of it', async () => {
  const s = script()
  const acquiring = s.locks.all([s.locks.mutex('a'), s.locks.mutex('b')]).acquire({ wait: 1_000 })
  await s.clock.advance(600)
  const a = s.asked[0]!.grant()
  await settle()
  assert.ok(s.asked[1]!.wait.remaining() <= 400)
  const rejected = assert.rejects(acquiring, (error: Error) => {
    assert.equal(a.releases, 1)
    assert.match(error.message, /lock "b" was not free within 1000 ms/)
    return true
  })
  await s.clock.advance(400)
  await rejected
})

test('a try that misses one gives back the others', async () => {
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

test('nothing, the same name twice, or what is not a lock is refused', () => {
  const { locks } = script()
  assert.throws(() => locks.all([]), /needs at least one lock/)
  assert.throws(() => locks.all([locks.mutex('a'), locks.readWrite('a').read]), /was given "a" twice/)
  assert.throws(() => locks.all([{} as never]), /item 0 is an object/)
  assert.throws(() => locks.all('a' as never), /takes an array of locks, got "a"/)
})
