import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import type { Wait } from 'holdfast/driver'
import { memory } from 'holdfast/memory'
import { AcquireTimeoutError, BackendError } from '../../src/core/errors.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'

after(leakCheck)

const holder = {
  attempt: 'x',
  mode: { kind: 'exclusive' },
  token: 7,
  heldFor: 100,
  expiresIn: 9_000,
  client: 'web-1:77',
  note: 'invoice run',
} as const

const refused = (error: unknown) =>
  Object.assign(new Error('connect'), { code: error, address: '10.0.0.7', port: 6379 })

test('a store that said nothing within the wait is an outage, with reason, address and how long it was tried', async () => {
  const s = script()
  const acquiring = s.locks
    .mutex('m')
    .acquire({ wait: 1_000 })
    .catch((error: unknown) => error)
  await settle()
  const failure = new BackendError('scripted', 'no answer', {
    cause: new AggregateError([refused('ECONNREFUSED')]),
  })
  s.asked[0]!.wait.report?.({ error: failure })
  await s.clock.advance(1_000)
  const error = await acquiring
  assert.ok(error instanceof BackendError)
  const { code, reason, address, tried } = error
  assert.deepEqual([code, reason, address, tried], ['UNAVAILABLE', 'ECONNREFUSED', '10.0.0.7:6379', 1_000])
  assert.match(error.message, /within 1000 ms \(ECONNREFUSED 10\.0\.0\.7:6379\)/)
})

test('a store that refuses for the whole wait is reported by its own words', async () => {
  const s = script()
  const acquiring = s.locks
    .mutex('m')
    .acquire({ wait: 1_000 })
    .catch((error: unknown) => error)
  await settle()
  s.asked[0]!.wait.report?.({ error: new BackendError('scripted', 'it is still loading') })
  await s.clock.advance(1_000)
  const error = await acquiring
  assert.ok(error instanceof BackendError)
  assert.deepEqual([error.code, error.message], ['BACKEND', 'scripted: it is still loading'])
})

test('a system error on a single attempt is an outage, too', async () => {
  const s = script()
  const trying = s.locks
    .mutex('m')
    .tryAcquire()
    .catch((error: unknown) => error)
  await settle()
  s.asked[0]!.fail(new BackendError('scripted', 'no', { cause: refused('ENOTFOUND') }))
  const error = await trying
  assert.ok(error instanceof BackendError && error.code === 'UNAVAILABLE' && error.reason === 'ENOTFOUND')
})

test('a request queued behind another of its process gets that request’s error, as of the end of its own wait', async () => {
  const s = script()
  const first = s.locks.mutex('m').acquire({ wait: 5_000 })
  first.catch(() => undefined)
  await settle()
  s.asked[0]!.wait.report?.({ holder })
  const second = s.locks
    .mutex('m')
    .acquire({ wait: 2_000 })
    .catch((error: unknown) => error)
  await s.clock.advance(2_000)
  const error = await second
  assert.ok(error instanceof AcquireTimeoutError)
  assert.equal(error.holder?.heldFor, 2_100)
  assert.equal(error.holder?.expiresIn, 7_000)
  await s.clock.advance(3_000)
  await assert.rejects(first, AcquireTimeoutError)
})

test('one attempt with `wait: 0` names the holder, too', async () => {
  const s = script()
  const acquiring = s.locks
    .mutex('m')
    .acquire({ wait: 0 })
    .catch((error: unknown) => error)
  await settle()
  s.asked[0]!.wait.report?.({ holder })
  s.asked[0]!.nothing()
  const error = await acquiring
  assert.ok(error instanceof AcquireTimeoutError)
  assert.equal(error.holder?.client, 'web-1:77')
  const locks = createLocks(memory())
  const lease = await locks.mutex('x').acquire({ note: 'mine' })
  const error2 = await locks
    .mutex('x')
    .acquire({ wait: 0 })
    .catch((error: unknown) => error)
  assert.ok(error2 instanceof AcquireTimeoutError)
  assert.equal(error2.holder?.note, 'mine')
  await lease.release()
  await locks.close()
})

test('one attempt with `wait: 0` names the holder also where the driver learns only that it is taken', async () => {
  const store = memory()
  const holding = createLocks(store)
  const locks = createLocks((env) => {
    const driver = store(env)
    const silent = (wait: Wait): Wait => ({
      signal: wait.signal,
      ended: wait.ended,
      remaining: () => wait.remaining(),
    })
    return { ...driver, acquire: (claim, wait) => driver.acquire(claim, silent(wait)) }
  })
  const lease = await holding.mutex('x').acquire({ note: 'theirs' })
  const error = await locks
    .mutex('x')
    .acquire({ wait: 0 })
    .catch((error: unknown) => error)
  assert.ok(error instanceof AcquireTimeoutError)
  assert.equal(error.holder?.token, lease.token)
  assert.equal(error.holder?.note, 'theirs')
  assert.equal(await locks.mutex('x').tryAcquire(), undefined)
  await holding.close()
  await locks.close()
})

test('the public message names neither host, process, note nor address', async () => {
  const s = script()
  const acquiring = s.locks
    .mutex('m')
    .acquire({ wait: 1_000 })
    .catch((error: unknown) => error)
  await settle()
  s.asked[0]!.wait.report?.({ holder, position: 2 })
  await s.clock.advance(1_000)
  const error = await acquiring
  assert.ok(error instanceof AcquireTimeoutError)
  assert.match(error.message, /web-1:77 \("invoice run"\)/)
  assert.equal(error.publicMessage, 'lock "m" was not free within 1000 ms')
  const outage = new BackendError('redis', 'no', { cause: refused('ECONNREFUSED'), tried: 5 })
  assert.equal(outage.publicMessage, 'the store of the locks cannot be used at present')
})

async function whoeverCalls(locks: ReturnType<typeof createLocks>, how: 'acquire' | 'run'): Promise<void> {
  const lock = locks.mutex('x')
  if (how === 'acquire') await lock.acquire({ wait: 20 })
  else await lock.run(() => undefined, { wait: 20 })
}

test('the stack of a time-out shows who asked', async () => {
  const store = memory()
  const [locks, others] = [createLocks(store), createLocks(store)]
  const lease = await others.mutex('x').acquire()
  for (const how of ['acquire', 'run'] as const) {
    const error = await whoeverCalls(locks, how).catch((error: unknown) => error)
    assert.ok(error instanceof AcquireTimeoutError)
    assert.match(error.stack ?? '', /whoeverCalls/)
  }
  await lease.release()
  await Promise.all([locks.close(), others.close()])
})

test('what a holder says of itself cannot take over the terminal or the log in which the error is read', async () => {
  const evil = '\x1b]0;owned\x07\x9b2J\r\n\u202e\u2028'
  const s = script()
  const acquiring = s.locks
    .mutex('m')
    .acquire({ wait: 1_000 })
    .catch((error: unknown) => error)
  await settle()
  s.asked[0]!.wait.report?.({ holder: { ...holder, client: `${evil}${'x'.repeat(10_000)}`, note: evil } })
  await s.clock.advance(1_000)
  const error = await acquiring
  assert.ok(error instanceof AcquireTimeoutError)
  assert.match(error.message, /held by /)
  assert.doesNotMatch(error.message, /[\p{Cc}\p{Cf}\u2028\u2029]/u)
  assert.ok(error.message.length < 1_000, `${error.message.length}`)
})

for (const how of ['a wait that is over', 'one attempt that was refused'])
  test(`an abort ends the look for the holder after ${how}`, async () => {
    const s = script()
    s.onInspect = () => new Promise(() => undefined)
    const denied: unknown[] = []
    s.locks.on('denied', ({ why, error }) => denied.push([why, error]))
    const stop = new AbortController()
    const wait = how.startsWith('a wait') ? 1_000 : 0
    const acquiring = s.locks.mutex('m').acquire({ wait, signal: stop.signal })
    const ended = assert.rejects(acquiring, (error) => error === 'enough')
    await settle()
    s.asked[0]!.wait.report?.({})
    if (wait === 0) s.asked[0]!.nothing()
    await s.clock.advance(wait + 500)
    stop.abort('enough')
    await ended
    assert.deepEqual(denied, [wait === 0 ? ['busy', undefined] : ['aborted', 'enough']])
  })
