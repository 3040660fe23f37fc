import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Cells } from '../../src/core/cell.js'
import { systemEnv } from '../../src/core/engine.js'
import { AcquireTimeoutError } from '../../src/core/errors.js'
import { memory } from '../../src/drivers/memory/index.js'
import type { DriverFactory } from '../../src/index.js'
import { type FakeClock, fakeClock } from '../support/fake-clock.js'
import { createLocksIn } from '../support/inside.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

after(leakCheck)

test('with `keepError: 0` an error is delivered to waiters, and to nobody who comes later, however soon', async () => {
  // No time passes, so what is kept for a millisecond is there for everybody.
  const env = { ...systemEnv(), clock: fakeClock() }
  const store = memory()
  const [one, two, three] = [createLocksIn(env, store), createLocksIn(env, store), createLocksIn(env, store)]
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

/** A store that answers each read of a cell `late` ms later. */
function slowToRead(store: DriverFactory, clock: FakeClock, late: () => number): DriverFactory {
  return (env) => {
    const driver = store(env)
    const cells = driver.cells as Cells
    const read: Cells['read'] = async (key, signal) => {
      await new Promise<void>((resolve) => void clock.at(clock.now() + late(), resolve))
      return cells.read(key, signal)
    }
    const { name, traits } = driver
    return {
      name,
      traits,
      acquire: (claim, wait) => driver.acquire(claim, wait),
      inspect: (of) => driver.inspect(of),
      close: () => driver.close(),
      cells: {
        read,
        write: (key, change, signal) => cells.write(key, change, signal),
        changed: (key, version, signal) => cells.changed(key, version, signal),
      },
    }
  }
}

test('`wait` bounds the whole call, including the first look', async () => {
  const clock = fakeClock()
  const env = { ...systemEnv(), clock }
  const store = memory()
  const [holder, locks] = [
    createLocksIn(env, store),
    createLocksIn(
      env,
      slowToRead(store, clock, () => 600),
    ),
  ]
  const lease = await holder.mutex('x').acquire({ ttl: 60_000 })
  const errors: unknown[] = []
  const refused = locks.once('x', () => 1, { wait: 1_000 }).catch((why: unknown) => void errors.push(why))
  await clock.advance(999)
  assert.equal(errors.length, 0)
  await clock.advance(1)
  assert.ok(errors[0] instanceof AcquireTimeoutError, String(errors))
  await refused
  await lease.release()
  for (const each of [holder, locks]) await each.close()
})

test('a store that falls silent once the lock is granted ends the call a second after `wait`', async () => {
  const clock = fakeClock()
  const env = { ...systemEnv(), clock }
  let reads = 0
  const locks = createLocksIn(
    env,
    slowToRead(memory(), clock, () => (++reads === 1 ? 0 : 3_600_000)),
  )
  const errors: unknown[] = []
  const refused = locks.once('x', () => 1, { wait: 200 }).catch((why: unknown) => void errors.push(why))
  await clock.advance(0)
  await clock.advance(1_001)
  assert.equal((errors[0] as { code?: unknown } | undefined)?.code, 'UNAVAILABLE', String(errors))
  await refused
  await clock.advance(3_600_000)
  await locks.close()
})
