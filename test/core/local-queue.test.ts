import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { maxContendedHandoffs, maxContendedHandoffTime } from '../../src/core/handoff-limit.js'
import type { Lease } from '../../src/index.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type ScriptedGrant, script } from '../support/scripted-driver.js'

after(leakCheck)

/** A grant that can be passed on `reserve` times. */
function passable(contended: () => boolean, reserve = 1_000_000): Partial<ScriptedGrant> {
  let token = 5_000
  return { token, contended, nextReservedToken: () => (reserve-- > 0 ? ++token : undefined) }
}

test('a thousand requests in one process cost the store one waiter', async () => {
  const s = script()
  const waiting = Array.from({ length: 1_000 }, () => s.locks.mutex('m').acquire())
  await settle()
  assert.equal(s.asked.length, 1)
  s.asked[0]!.grant(passable(() => false))
  const tokens: number[] = []
  for (const acquiring of waiting) {
    const lease = await acquiring
    tokens.push(lease.token)
    await lease.release()
  }
  assert.equal(s.asked.length, 1, 'handed on a thousand times without asking the store')
  assert.deepEqual(
    tokens,
    Array.from({ length: 1_000 }, (_, i) => 5_000 + i),
    'in order, each with a token of its own',
  )
})

test(`while others wait in the store the lock is passed on at most ${maxContendedHandoffs} times`, async () => {
  const s = script()
  let contended = false
  let held = 0
  const workers = Array.from({ length: 100 }, async () => {
    await using _ = await s.locks.mutex('m').acquire()
    held++
    if (held === 50) contended = true
  })
  await settle()
  const grant = s.asked[0]!.grant(passable(() => contended))
  await settle()
  assert.equal(grant.releases, 1)
  assert.equal(held, 50 + maxContendedHandoffs)
  assert.equal(s.asked.length, 2, 'the next local request stands in the line of the store')
  s.asked[1]!.grant(passable(() => false))
  await Promise.all(workers)
  assert.equal(held, 100)
})

test(`while others wait in the store the lock is passed on for at most ${maxContendedHandoffTime} ms`, async () => {
  const s = script()
  const [first, second, third] = ['a', 'b', 'c'].map(() => s.locks.mutex('m').acquire())
  await settle()
  const grant = s.asked[0]!.grant(passable(() => true))
  const a = await first!
  await a.release()
  const b = await second!
  await s.clock.advance(maxContendedHandoffTime + 1)
  await b.release()
  await settle()
  assert.equal(grant.releases, 1)
  s.asked[1]!.grant()
  await (await third!).release()
})

test('a reserve of tokens that is used up sends the grant back', async () => {
  const s = script()
  const [first, second] = [s.locks.mutex('m').acquire(), s.locks.mutex('m').acquire()]
  await settle()
  const grant = s.asked[0]!.grant(passable(() => false, 0))
  await (await first).release()
  assert.equal(grant.releases, 1)
  await settle()
  s.asked[1]!.grant()
  await (await second).release()
})

test('a doubtful grant is not passed on: the next holder would start with a lease that may be gone', async () => {
  const s = script()
  const [first, second] = [
    s.locks.mutex('m').acquire({ ttl: 9_000 }),
    s.locks.mutex('m').acquire({ ttl: 9_000 }),
  ]
  await settle()
  const grant = s.asked[0]!.grant(passable(() => false))
  const a = await first
  await s.clock.advance(5_000)
  assert.equal(a.state, 'doubtful')
  await a.release()
  assert.equal(grant.releases, 1)
  await settle()
  s.asked[1]!.grant()
  await (await second).release()
})

test('when the head gives up, the next request takes over its place in the store', async () => {
  const s = script()
  const leaving = new AbortController()
  const first = s.locks.mutex('m').acquire({ signal: leaving.signal })
  const second = s.locks.mutex('m').acquire()
  await settle()
  leaving.abort(new Error('no longer wanted'))
  await assert.rejects(first, { message: 'no longer wanted' })
  assert.equal(s.asked.length, 1)
  assert.equal(s.asked[0]!.wait.ended, false, 'the place is still wanted')
  s.asked[0]!.grant()
  await (await second).release()
})

test('a place for one of several holders is not taken over: others may have been granted since, with newer tokens', async () => {
  for (const take of ['reader', 'permits'] as const) {
    const s = script()
    const lock = take === 'reader' ? s.locks.readWrite('m').read : s.locks.semaphore('m', { permits: 3 })
    const leaving = new AbortController()
    const first = lock.acquire({ signal: leaving.signal })
    const second = lock.acquire()
    await settle()
    leaving.abort(new Error('gone'))
    await assert.rejects(first)
    assert.equal(s.asked[0]!.wait.ended, true)
    const late = s.asked[0]!.grant()
    await settle()
    assert.equal(late.releases, 1)
    s.asked[1]!.grant()
    await (await second).release()
  }
})

test('a head whose successor asks for something else leaves the queue, and a grant that still comes is released', async () => {
  const s = script()
  const leaving = new AbortController()
  const first = s.locks.mutex('m').acquire({ signal: leaving.signal })
  const second = s.locks.mutex('m').acquire({ ttl: 5_000 })
  await settle()
  leaving.abort(new Error('gone'))
  await assert.rejects(first)
  assert.equal(s.asked[0]!.wait.ended, true)
  assert.equal(s.asked[0]!.wait.signal.aborted, true)
  assert.equal(s.asked.length, 2)
  const late = s.asked[0]!.grant()
  await settle()
  assert.equal(late.releases, 1)
  s.asked[1]!.grant()
  await (await second).release()
})

test('an abort that comes together with the grant wins, and the grant is released', async () => {
  const s = script()
  const leaving = new AbortController()
  const acquiring = s.locks.mutex('m').acquire({ signal: leaving.signal })
  await settle()
  const grant = s.asked[0]!.grant()
  leaving.abort(new Error('too late'))
  await assert.rejects(acquiring, { message: 'too late' })
  await settle()
  assert.equal(grant.releases, 1)
})

test('a grant that arrives while the event loop is blocked past the end of the wait is delivered', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire({ wait: 100, ttl: 1_000 })
  await settle()
  s.clock.stall(101)
  const grant = s.asked[0]!.grant()
  await using lease = await acquiring
  assert.equal(lease.state, 'held')
  assert.equal(grant.releases, 0)
})

test('a wait that is over before the event loop has turned once begins then', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire({ wait: 50 })
  s.clock.stall(60)
  await settle()
  await s.clock.advance(49)
  s.asked[0]!.grant()
  await using lease = await acquiring
  assert.equal(lease.state, 'held')
})

test('a wait begun behind a blocked event loop ends, too', async () => {
  const s = script()
  const rejected = assert.rejects(s.locks.mutex('m').acquire({ wait: 50 }), { code: 'UNAVAILABLE' })
  s.clock.stall(60)
  await settle()
  await s.clock.advance(50)
  await rejected
})

test('a wait that times out says who holds the lock, since when and with what note', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire({ wait: 2_000 })
  await settle()
  const holder = {
    attempt: 'x',
    mode: { kind: 'exclusive' },
    token: 7,
    heldFor: 4_000,
    expiresIn: 9,
    client: 'web-1:77',
    note: 'invoice run',
  } as const
  s.asked[0]!.wait.report?.({ holder, position: 3 })
  const rejected = assert.rejects(acquiring, (error: Error) => {
    assert.match(
      error.message,
      /"m" was not free within 2000 ms; held by web-1:77 \("invoice run"\) for 6000 ms, token 7; position 3 in the queue/,
    )
    return true
  })
  await s.clock.advance(2_000)
  await rejected
  assert.equal(s.asked[0]!.wait.ended, true)
  assert.equal(s.clock.pending, 0)
})

test('a wait behind a holder in this very process says so', async () => {
  const s = script()
  const first = s.locks.mutex('m').acquire({ note: 'first' })
  await settle()
  s.asked[0]!.grant()
  const lease = await first
  const rejected = assert.rejects(
    s.locks.mutex('m').acquire({ wait: 50 }),
    /held by test:1 \(this process\) \("first"\)/,
  )
  await s.clock.advance(50)
  await rejected
  await lease.release()
})

test('a single attempt finds the queue busy without asking the store', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire()
  await settle()
  assert.equal(await s.locks.mutex('m').tryAcquire(), undefined, 'somebody here is asking already')
  s.asked[0]!.grant()
  const lease = await acquiring
  assert.equal(await s.locks.mutex('m').tryAcquire(), undefined)
  await assert.rejects(s.locks.mutex('m').acquire({ wait: 0 }), { name: 'AcquireTimeoutError' })
  assert.equal(s.asked.length, 1)
  await lease.release()
})

test('a single attempt of a reader asks the store although another reader of this process is on its way', async () => {
  const s = script()
  const { read, write } = s.locks.readWrite('m')
  const first = read.acquire()
  const second = read.acquire()
  const reading = read.tryAcquire()
  assert.equal(await write.tryAcquire(), undefined)
  await settle()
  assert.deepEqual(
    s.asked.map(({ claim }) => claim.mode.kind),
    ['shared', 'shared'],
    'the second waits for its turn, the try does not',
  )
  s.asked[1]!.grant()
  assert.equal((await reading)?.isHeld, true)
  s.asked[0]!.grant()
  await first
  await settle()
  s.asked[2]!.grant()
  await second
})

test('a single attempt that gets no answer is an error, not "not free"', async () => {
  const s = script()
  const trying = assert.rejects(s.locks.mutex('m').tryAcquire({ ttl: 1_000 }), {
    name: 'BackendError',
    code: 'UNAVAILABLE',
  })
  await s.clock.advance(1_000)
  await trying
})

test('a single attempt whose grant arrives too late to be useful is an error, and the grant is released', async () => {
  const s = script()
  const trying = assert.rejects(s.locks.mutex('m').tryAcquire({ ttl: 1_000 }), {
    code: 'BACKEND',
    message:
      /^.*: the reply about "m" came when the grant had nearly expired \(ttl: 1000 ms\); try again, or use a longer ttl$/,
  })
  await settle()
  await s.clock.advance(950)
  const grant = s.asked[0]!.grant({ validUntil: s.clock.now() + 40 })
  await trying
  assert.equal(grant.releases, 1)
})

test('a lock whose lease ran out while the machine slept is not passed on, and what was granted before it slept is asked again', async () => {
  const s = script()
  const first = s.locks.mutex('m').acquire({ ttl: 1_000 })
  await settle()
  s.asked[0]!.grant({ nextReservedToken: () => 7 })
  const lease = await first
  const second = s.locks.mutex('m').acquire({ ttl: 1_000 })
  await settle()
  s.clock.sleep(5_000)
  assert.equal(await lease.release(), 'lost')
  await settle()
  assert.equal(s.asked.length, 2, 'the next one asks the store')
  const late = s.asked[1]!
  s.clock.sleep(5_000)
  const unused = late.grant()
  await settle()
  assert.equal(unused.releases, 1)
  assert.equal(s.asked.length, 3)
  s.asked[2]!.grant()
  assert.equal((await second).isHeld, true)
})

test('fair requests each take a place of their own in the store', async () => {
  const s = script()
  const both = [s.locks.mutex('m').acquire({ fair: true }), s.locks.mutex('m').acquire({ fair: true })]
  await settle()
  assert.equal(s.asked.length, 2)
  for (const [i, acquiring] of both.entries()) {
    s.asked[i]!.grant()
    await (await acquiring).release()
  }
})

test('readers of one process hold together, and a writer behind them waits in the store', async () => {
  const s = script()
  const { read, write } = s.locks.readWrite('doc')
  const readers = [read.acquire(), read.acquire()]
  const writer = write.acquire()
  await settle()
  s.asked[0]!.grant()
  await settle()
  s.asked[1]!.grant()
  const held: Lease[] = await Promise.all(readers)
  assert.equal(s.asked.length, 3)
  assert.equal(s.asked[2]!.claim.mode.kind, 'exclusive')
  for (const lease of held) await lease.release()
  s.asked[2]!.grant()
  await (await writer).release()
})

test('a failing store rejects the current request, and the next request asks again', async () => {
  const s = script()
  const first = assert.rejects(s.locks.mutex('m').acquire(), { message: 'down' })
  const second = s.locks.mutex('m').acquire()
  await settle()
  s.asked[0]!.fail(new Error('down'))
  await first
  await settle()
  s.asked[1]!.grant()
  await (await second).release()
  assert.equal(s.engine.queues.get('m')?.isEmpty, true)
})

test('a release that gets no answer is unknown, and is tried again until the lease would have ended', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire({ ttl: 9_000 })
  await settle()
  const grant = s.asked[0]!.grant()
  const lease = await acquiring
  s.onRelease = async () => {
    throw new Error('reset')
  }
  assert.equal(await lease.release(), 'unknown')
  await s.clock.advance(1_500)
  assert.equal(grant.releases, 2)
  s.onRelease = async () => 'released'
  await s.clock.advance(9_000)
  assert.equal(grant.releases, 3)
  assert.equal(s.clock.pending, 0)
})

test('close rejects waiters, releases what is held, and refuses what comes after', async () => {
  const s = script()
  const held = s.locks.mutex('a').acquire()
  await settle()
  const grant = s.asked[0]!.grant()
  const lease = await held
  const waiting = assert.rejects(s.locks.mutex('a').acquire(), { code: 'CLOSED' })
  const parked = assert.rejects(s.locks.mutex('b').acquire(), { code: 'CLOSED' })
  await settle()
  s.asked[1]!.wait.signal.addEventListener('abort', () => s.asked[1]!.nothing())
  await s.locks.close()
  await Promise.all([waiting, parked])
  assert.equal(grant.releases, 1)
  assert.equal(lease.state, 'released')
  assert.throws(() => s.locks.mutex('a'), { code: 'CLOSED' })
  assert.equal(s.clock.pending, 0)
})

test('a driver that throws instead of rejecting fails the call, and the next one is sent', async () => {
  let broken = true
  const locks = createLocks((env) => {
    const driver = memory()(env)
    const acquire: typeof driver.acquire = (claim, wait) => {
      if (broken) throw new Error('broken')
      return driver.acquire(claim, wait)
    }
    return { ...driver, acquire }
  })
  await assert.rejects(locks.mutex('m').acquire(), { message: 'broken' })
  broken = false
  await (await locks.mutex('m').acquire()).release()
  await locks.close()
})

test('of names nobody uses any more only a few lines are kept', async () => {
  const s = script()
  for (let i = 0; i < 400; i++) {
    const acquiring = s.locks.mutex(`name ${i}`).acquire()
    await Promise.resolve()
    s.asked[i]!.grant()
    await (await acquiring).release()
  }
  assert.ok(s.engine.queues.size <= 257, `${s.engine.queues.size} lines`)
})

test('a loop that never leaves the microtasks piles nothing up', async () => {
  const s = script()
  for (let i = 0; i < 5_000; i++) {
    const acquiring = s.locks.mutex('m').acquire()
    s.asked.pop()!.grant()
    await (await acquiring).release()
  }
  await s.clock.advance(0)
  assert.equal(s.clock.pending, 0, 'none of the five thousand waits and leases has a timer')
  await s.locks.close()
  assert.equal(s.clock.pending, 0)
})

test('readers do not wait for each other at the store: once one is in, the others ask side by side', async () => {
  const s = script()
  const { read, write } = s.locks.readWrite('m')
  const readers = Array.from({ length: 10 }, () => read.acquire())
  await settle()
  assert.equal(s.asked.length, 1, 'nobody knows yet whether there is room')
  const writer = write.acquire()
  const behind = read.acquire()
  s.asked[0]!.grant()
  await settle()
  assert.equal(s.asked.length, 11, 'nine readers, and the writer behind them')
  assert.equal(s.asked.filter(({ claim }) => claim.mode.kind === 'exclusive').length, 1)
  for (const asked of s.asked.slice(1, 10)) asked.grant()
  for (const lease of await Promise.all(readers)) await lease.release()
  s.asked[10]!.grant()
  await (await writer).release()
  await settle()
  s.asked[11]!.grant()
  await (await behind).release()
})

test('readers of whom one was told to wait have one entry in the store’s queue', async () => {
  const s = script()
  const { read } = s.locks.readWrite('m')
  const first = read.acquire()
  await settle()
  s.asked[0]!.grant()
  await first
  const second = read.acquire()
  await settle()
  s.asked[1]!.wait.report?.({ position: 1 })
  const others = Array.from({ length: 5 }, () => read.acquire())
  await settle()
  assert.equal(s.asked.length, 2)
  s.asked[1]!.grant()
  await second
  await settle()
  assert.equal(s.asked.length, 7)
  for (const asked of s.asked.slice(2)) asked.grant()
  for (const lease of await Promise.all([first, second, ...others])) await lease.release()
})

test('permits are asked for side by side for as many as there can be room for', async () => {
  const s = script()
  const semaphore = s.locks.semaphore('m', { permits: 3 })
  const takers = Array.from({ length: 8 }, () => semaphore.acquire())
  await settle()
  s.asked[0]!.grant()
  await settle()
  assert.equal(s.asked.length, 4, 'two that may fit, and the one in the queue')
  for (let i = 0; i < 8; i++) {
    if (i > 0) s.asked[i]!.grant()
    await (await takers[i]!).release()
    await settle()
  }
})
