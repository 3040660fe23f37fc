// Forgotten leases: detected by garbage collection, or by their age.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { memory } from '../../src/drivers/memory/index.js'
import { createLocks, type LockEvents } from '../../src/index.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

after(leakCheck)

test('a lease that nobody can reach any more is reported once, with the stack of its acquire; no other is', async () => {
  const child = fileURLToPath(new URL('./leaks-child.js', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--expose-gc',
    '--enable-source-maps',
    child,
  ])
  const { token, told, heard } = JSON.parse(stdout)
  assert.equal(told.length, 1, stdout)
  const [leak] = told as LockEvents['leaked'][]
  assert.deepEqual(
    [leak?.name, leak?.token, leak?.why, leak?.note],
    ['forgotten', token, 'unreachable', 'forgotten'],
  )
  assert.match(leak?.stack.split('\n')[0] ?? '', /forgetful/, 'the first frame is the caller')
  assert.equal(heard.length, 1, stdout)
  assert.equal(heard[0].code, 'HOLDFAST_LEAK')
  assert.match(
    heard[0].message,
    /^the lease of "forgotten" with token \d+ was not released, and nobody can reach it any more/,
  )
  assert.match(heard[0].detail, /forgetful/)
})

test('a lease that is held much longer than its name usually is, is reported while it is held', async () => {
  const locks = createLocks(memory(), { leakWarning: { times: 2, atLeast: 20 } })
  const told: LockEvents['leaked'][] = []
  locks.on('leaked', (event) => told.push(event))
  for (let i = 0; i < 5; i++) await locks.mutex('m').run(() => undefined)
  const lease = await locks.mutex('m').acquire()
  await until(() => told.length > 0)
  assert.equal(lease.isHeld, true)
  assert.deepEqual([told[0]?.why, told[0]?.token], ['long', lease.token])
  assert.ok((told[0]?.held ?? 0) >= 20)
  assert.ok((told[0]?.usual ?? 1_000) < 1_000)
  await lease.release()
  assert.equal(told.length, 1)
  await locks.close()
})

test('a lease that is meant to be held for long is left out where its acquire says so', async () => {
  const locks = createLocks(memory(), { leakWarning: { times: 2, atLeast: 20 } })
  const told: LockEvents['leaked'][] = []
  locks.on('leaked', (event) => told.push(event))
  for (const name of ['m', 'watched'])
    for (let i = 0; i < 5; i++) await locks.mutex(name).run(() => undefined)
  const lease = await locks.mutex('m').acquire({ leakWarning: false })
  // Watched later, and due later.
  const watched = await locks.mutex('watched').acquire()
  await until(() => told.length > 0)
  assert.deepEqual(
    told.map(({ name }) => name),
    ['watched'],
  )
  await Promise.all([lease.release(), watched.release()])
  await locks.close()
})

test('a lease that came from another process is left out where its adopt says so', async () => {
  const store = memory()
  const [from, to] = [createLocks(store), createLocks(store, { leakWarning: { times: 2, atLeast: 20 } })]
  const told: LockEvents['leaked'][] = []
  to.on('leaked', (event) => told.push(event))
  for (const name of ['m', 'watched']) for (let i = 0; i < 5; i++) await to.mutex(name).run(() => undefined)
  const ticket = await from.export(await from.mutex('m').acquire())
  const lease = await to.adopt(ticket, { leakWarning: false })
  // Watched later, and due later.
  const watched = await to.adopt(await from.export(await from.mutex('watched').acquire()))
  await until(() => told.length > 0)
  assert.deepEqual(
    told.map(({ name }) => name),
    ['watched'],
  )
  await Promise.all([lease.release(), watched.release()])
  await Promise.all([from.close(), to.close()])
})

test('nothing is watched unless it is asked for, or this is development', async () => {
  const before = process.env.NODE_ENV
  for (const [env, given, watches] of [
    ['production', undefined, false],
    ['development', undefined, true],
    ['development', false, false],
    ['production', true, true],
  ] as const) {
    process.env.NODE_ENV = env
    const locks = createLocks(memory(), given === undefined ? {} : { leakWarning: given })
    const lease = (await locks.mutex('m').acquire()) as unknown as { readonly watched: unknown }
    assert.equal(lease.watched !== undefined, watches, `${env}, ${given}`)
    await locks.close()
  }
  if (before === undefined) delete process.env.NODE_ENV
  else process.env.NODE_ENV = before
})

test('options that make no sense are refused', () => {
  const make = (leakWarning: unknown) => () => createLocks(memory(), { leakWarning } as never)
  assert.throws(
    make('yes'),
    /leakWarning must be true, false or an object such as \{ atLeast: '1m' \}, got "yes"/,
  )
  assert.throws(make({ times: 1 }), /leakWarning.times must be a number from 2, got 1/)
  assert.throws(make({ time: 3 }), /leakWarning: unknown option "time"; did you mean times/)
  assert.throws(() => createLocks(memory(), 5 as never), /options must be an object/)
})

test('an acquire takes only true and false', async () => {
  await using locks = createLocks(memory())
  await assert.rejects(
    locks.mutex('m').acquire({ leakWarning: 'no' as never }),
    /^TypeError: leakWarning must be true or false, got "no"$/,
  )
})
