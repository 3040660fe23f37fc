import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { systemEnv } from '../../src/core/engine.js'
import { memory } from '../../src/drivers/memory/index.js'
import { fakeClock } from '../support/fake-clock.js'
import { locksIn } from '../support/inside.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

after(leakCheck)

test('with `keepError: 0` an error is told to those who were waiting, and to nobody who comes later, however soon', async () => {
  // No time passes, so what is kept for a millisecond is there for everybody.
  const env = { ...systemEnv(), clock: fakeClock() }
  const store = memory()
  const [one, two, three] = [locksIn(env, store), locksIn(env, store), locksIn(env, store)]
  let fail: (() => void) | undefined
  const failing = one.once(
    'x',
    () => new Promise((_, reject) => (fail = () => reject(new Error('failed')))),
    {
      keepError: 0,
    },
  )
  await until(() => fail !== undefined)
  let ran = 0
  const waiting = two.once('x', () => ++ran, { keepError: 0 })
  await until(async () => (await two.inspect('x')).waiters.length === 1)
  const told = Promise.all([failing, waiting].map((asked) => assert.rejects(asked, { message: 'failed' })))
  fail?.()
  await told
  assert.equal(await three.once('x', () => ++ran), 1)
  assert.equal(await two.once('x', () => ++ran), 1)
  for (const locks of [one, two, three]) await locks.close()
})
