import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { memory } from '../../src/drivers/memory/index.js'
import type { AcquireOptions } from '../../src/index.js'
import { createLocks } from '../../src/index.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'

after(leakCheck)

const bad: [string, unknown, RegExp][] = [
  ['wait', -1, /^RangeError: wait must be from 0 to \d+ ms, or Infinity, got -1$/],
  ['wait', Number.NaN, /^RangeError: wait must be .* got NaN$/],
  ['wait', 1e18, /^RangeError: wait must be .* got 1000000000000000000$/],
  ['wait', '5 s', /^TypeError: wait must be a number of milliseconds or text such as '30s', got "5 s"$/],
  ['ttl', 0, /^RangeError: ttl must be from 10 to \d+ ms, got 0$/],
  ['ttl', 9, /^RangeError: ttl must be from 10 /],
  ['ttl', Number.POSITIVE_INFINITY, /^RangeError: ttl must be .* got Infinity$/],
  ['lockDelay', -1, /^RangeError: lockDelay must be from 0 /],
  ['maxHold', 0, /^RangeError: maxHold must be from 1 /],
  ['autoRenew', 'yes', /^TypeError: autoRenew must be true or false, got "yes"$/],
  ['fair', 1, /^TypeError: fair must be true or false, got 1$/],
  ['signal', {}, /^TypeError: signal must be an AbortSignal, got an object$/],
  ['note', 'a\nb', /^RangeError: note "a\\nb" has the control character U\+000A at 1; remove or encode it$/],
  ['note', 'x'.repeat(257), /^RangeError: note is 257 bytes long; the limit is 256$/],
  ['reentrant', 'yes', /^TypeError: reentrant must be true, false or a lease of this library, got "yes"$/],
  [
    'permits',
    1,
    /^TypeError: a mutex has no permits, got permits: 1; use locks\.semaphore\(name, \{ permits \}\)$/,
  ],
  [
    'maxPending',
    0,
    /^RangeError: maxPending must be a whole number from 1, or Infinity, got 0; to make one attempt, use tryAcquire\(\)$/,
  ],
  ['maxPending', 1.5, /^RangeError: maxPending must be .* got 1\.5;/],
  ['maxPending', '10', /^TypeError: maxPending must be a number, got "10"$/],
  ['timeout', 5, /^TypeError: a lock: unknown option "timeout"; known are wait, /],
]

for (const [option, value, message] of bad) {
  test(`${option}: ${String(value).slice(0, 20)} is refused before anything is sent to the store`, async () => {
    const s = script()
    const options = { [option]: value } as AcquireOptions
    await assert.rejects(
      s.locks.mutex('m').acquire(options),
      (error) => message.test(String(error)) || assert.fail(String(error)),
    )
    assert.equal(s.asked.length, 0)
    assert.ok(
      [...s.engine.queues.values()].every(({ isEmpty }) => isEmpty),
      'nothing is half taken',
    )
  })
}

test('invalid options, an invalid function and a driver that was not created are reported at once', async () => {
  const s = script()
  const [lock, other] = [s.locks.mutex('m'), s.locks.mutex('n')]
  for (const asked of [lock, s.locks.all([lock, other])]) {
    for (const call of ['acquire', 'tryAcquire'] as const) {
      await assert.rejects(asked[call](5_000 as never), {
        name: 'TypeError',
        message: `options must be an object such as ${call === 'acquire' ? '{ wait: 5000 } or ' : ''}{ ttl: 5000 }, got 5000`,
      })
      await assert.rejects(asked[call](null as never), /options must be an object .* got null/)
    }
    await assert.rejects(asked.run({ wait: 5 } as never), {
      name: 'TypeError',
      message: 'run takes a function, as in run(async (lease) => { … }), got an object',
    })
    await assert.rejects(
      asked.acquire({ wait: '5' as never }),
      /wait must be a number of milliseconds or text/,
    )
    await assert.rejects(asked.acquire({ wait: -1 }), /wait must be from 0 to/)
  }
  assert.equal(s.asked.length, 0)
  assert.throws(() => createLocks(memory as never), /takes what memory\(\) or .* gives, got memory itself/)
  assert.throws(() => createLocks(memory(), 5 as never), /options must be an object .* got 5/)
})

test('so it is for everything that is more than a lock', async () => {
  const locks = createLocks(memory())
  const five = 5_000 as never
  const latch = locks.latch('l')
  const pool = locks.pool('p', { permits: 2 })
  const election = locks.election('e')
  for (const [named, call] of [
    ['wait: 5000 }', () => latch.wait(five)],
    ['keep: 5000 }', () => latch.setCount(2, five)],
    ['wait: 5000 } or { ttl: 5000 }', () => latch.join(five)],
    ['wait: 5000 } or { ttl: 5000 }', () => locks.barrier('b', 2).enter(five)],
    ['wait: 5000 } or { ttl: 5000 }', () => pool.acquire(five)],
    ['ttl: 5000 }', () => pool.tryAcquire(five)],
    ['wait: 5000 } or { ttl: 5000 }', () => election.campaign('me', five)],
    ['keep: 5000 } or { wait: 5000 }', () => locks.once('o', () => 1, five)],
    ['grace: 5000 }', () => locks.revoke('m', five)],
    ['minHold: 5000 } or { maxHold: 5000 }', async () => locks.job('j', five)],
  ] as const) {
    const message = `options must be an object such as { ${named}, got 5000`
    await assert.rejects(async () => call(), { name: 'TypeError', message })
  }
  const inside = await locks.barrier('alone', 1).enter()
  await assert.rejects(inside.leave(five), /such as { wait: 5000 }, got 5000/)
  assert.equal(await inside.leave(), true)
  assert.deepEqual(await locks.list(), [])
  await locks.close()
})

test('tryAcquire takes no wait and no bound on waiters', async () => {
  const s = script()
  await assert.rejects(s.locks.mutex('m').tryAcquire({ wait: 5 } as object), /tryAcquire makes one attempt/)
  await assert.rejects(s.locks.mutex('m').tryAcquire({ maxPending: 5 } as object), /takes no maxPending/)
  const both = s.locks.all([s.locks.mutex('m'), s.locks.mutex('n')])
  await assert.rejects(both.tryAcquire({ maxPending: 5 } as object), /takes no maxPending/)
})

test('a signal that is aborted already sends nothing and rethrows its reason', async () => {
  const s = script()
  await assert.rejects(s.locks.mutex('m').acquire({ signal: AbortSignal.abort(new Error('before')) }), {
    message: 'before',
  })
  assert.equal(s.asked.length, 0)
})

test('a driver without first come, first served order refuses fair', async () => {
  const s = script({ traits: { fair: false } })
  await assert.rejects(s.locks.mutex('m').acquire({ fair: true }), { name: 'UnsupportedError' })
  assert.throws(() => script({ traits: { fair: false }, defaults: { fair: true } }), {
    name: 'UnsupportedError',
  })
})

test('a driver without a mode refuses the lock when it is made', () => {
  const s = script({ traits: { modes: ['exclusive'] } })
  assert.throws(() => s.locks.readWrite('x'), {
    name: 'UnsupportedError',
    message: /has no shared mode; it can do: exclusive/,
  })
  assert.throws(() => s.locks.semaphore('x', { permits: 2 }), { name: 'UnsupportedError' })
})

test('a store whose least ttl is above the default starts from its own', async () => {
  const s = script({ traits: { minTtl: 60_000 } })
  assert.equal(s.engine.defaults.ttl, 60_000)
})

test('defaults are checked when the locks are made, and hold for every lock', () => {
  assert.equal(script({ defaults: { ttl: 5_000 } }).engine.defaults.ttl, 5_000)
  assert.throws(() => script({ defaults: { ttl: -5 } }), RangeError)
  assert.throws(
    () => createLocks({} as never),
    /createLocks takes a driver such as memory\(\) or local\(\), got an object/,
  )
})

const badNames: [unknown, RegExp][] = [
  ['', /must not be empty; name the thing it protects/],
  ['a\u0000b', /control character U\+0000 at 1/],
  ['a\u009fb', /control character U\+009F/],
  ['x'.repeat(513), /is 513 bytes long; the limit is 512/],
  ['é'.repeat(257), /is 514 bytes long/],
  ['\ud800', /half a surrogate pair at 0/],
  [42, /must be a string, got 42; convert it first/],
  [undefined, /must be a string, got undefined/],
]

for (const [name, message] of badNames) {
  test(`the name ${JSON.stringify(name)?.slice(0, 24)} is refused when the lock is made`, () => {
    const { locks } = script()
    for (const make of [() => locks.mutex(name as string), () => locks.readWrite(name as string)])
      assert.throws(make, message)
    assert.throws(() => locks.semaphore(name as string, { permits: 1 }), message)
  })
}

test('any other name is taken as it is', () => {
  const { locks } = script()
  for (const name of ['{}', 'a:b', '../x', ' ', '💰', "o'brien", 'x'.repeat(512)])
    assert.equal(locks.mutex(name).name, name)
})

test('a semaphore refuses a limit or a request that cannot be, and two limits for one name', async () => {
  const s = script()
  for (const permits of [0, -1, 1.5, 2_000_000, Number.NaN]) {
    assert.throws(() => s.locks.semaphore('pool', { permits }), /must be an integer from 1 to 1000000, got/)
  }
  assert.throws(() => s.locks.semaphore('pool', {} as never), /must be a number, got undefined/)
  const pool = s.locks.semaphore('pool', { permits: 3 })
  await assert.rejects(
    pool.acquire({ permits: 4 }),
    /permits asked of semaphore "pool" must be an integer from 1 to 3, got 4/,
  )
  assert.equal(s.asked.length, 0)
  const taking = pool.acquire()
  s.asked[0]?.grant()
  await (await taking).release()
  assert.throws(
    () => s.locks.semaphore('pool', { permits: 4 }),
    /has 3 permits for its current users, got permits: 4/,
  )
  assert.equal(s.asked.length, 1)
})

test('a semaphore goes by the limit the store accepted last, not by one it never answered', async () => {
  const s = script()
  const three = s.locks.semaphore('pool', { permits: 3 })
  const silent = assert.rejects(three.acquire({ wait: 100 }), { code: 'UNAVAILABLE' })
  await s.clock.advance(200)
  await silent
  const taking = s.locks.semaphore('pool', { permits: 5 }).acquire()
  s.asked.at(-1)?.grant()
  await (await taking).release()
  assert.throws(() => s.locks.semaphore('pool', { permits: 3 }), /has 5 permits .* got permits: 3/)
})
