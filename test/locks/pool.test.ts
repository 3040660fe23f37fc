import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Engine, systemEnv } from '../../src/core/engine.js'
import { locksOver } from '../../src/create-locks.js'
import { memory } from '../../src/drivers/memory/index.js'
import { createLocks } from '../../src/index.js'
import { fakeClock } from '../support/fake-clock.js'
import { gated } from '../support/gated-cells.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

test('a member that leaves a deleted pool does not recreate it', async () => {
  await using locks = createLocks(memory())
  const pool = locks.pool('p', { permits: 1 })
  await pool.resize(5)
  const lease = await pool.acquire()
  await locks.forceRelease('p')
  assert.equal(await pool.delete(), true)
  assert.equal(await lease.release(), 'lost')
  assert.equal(await locks.pool('p', { permits: 3 }).size(), 3)
})

test('a pool is closed however short the wait, and a signal that ends the wait does not open it', async () => {
  await using locks = createLocks(memory())
  const pool = locks.pool('p', { permits: 2 })
  const lease = await pool.acquire()
  assert.equal(await pool.close({ wait: 1 }), false)
  await assert.rejects(pool.acquire(), { code: 'POOL_CLOSED' })
  const controller = new AbortController()
  const draining = pool.close({ wait: Number.POSITIVE_INFINITY, signal: controller.signal })
  setImmediate(() => controller.abort(new Error('no longer wanted')))
  await assert.rejects(draining, { message: 'no longer wanted' })
  await assert.rejects(pool.tryAcquire(), { code: 'POOL_CLOSED' })
  await assert.rejects(pool.close(5 as never), /options must be an object such as \{ wait: 5 \}/)
  await assert.rejects(pool.close({ wait: -1 }), /wait must be from 0/)
  await lease.release()
  assert.equal(await pool.close(), true)
})

test('a closed pool gives nothing to a waiter that has not noticed yet', async () => {
  const store = memory()
  const late = gated(store)
  await using locks = createLocks(store)
  const pool = locks.pool('p', { permits: 1 })
  const lease = await pool.acquire()
  const waits = late.locks.pool('p', { permits: 1 }).acquire({ wait: Number.POSITIVE_INFINITY })
  waits.catch(() => undefined)
  await late.parked
  late.shut()
  const drained = pool.close({ wait: 10_000 })
  await assert.rejects(pool.acquire(), { code: 'POOL_CLOSED' })
  await lease.release()
  assert.equal(await drained, true)
  assert.deepEqual(await pool.holders(), [])
  late.open()
  await assert.rejects(waits, { code: 'POOL_CLOSED' })
  await late.locks.close()
})

test('maxHold and autoRenew: false count from the moment the permits are granted, not while their caller waits', async () => {
  const clock = fakeClock()
  const env = { ...systemEnv(), clock }
  const locks = locksOver<'exclusive' | 'shared' | 'permits' | 'cells'>(new Engine(memory(), undefined, env))
  const pool = locks.pool('p', { permits: 1 })
  const first = await pool.acquire()
  const terms = { wait: 600_000, ttl: 1_000, autoRenew: false, maxHold: 800 } as const
  const waits = pool.acquire(terms)
  waits.catch(() => undefined)
  await clock.advance(60_000)
  await first.release()
  await clock.advance(0)
  const lease = await waits
  assert.equal(lease.state, 'held')
  await clock.advance(790)
  assert.equal(lease.state, 'held')
  await clock.advance(20)
  assert.equal(lease.state, 'lost')
  const taking = pool.acquire()
  await clock.advance(5_000)
  const second = await taking
  const { maxHold: _, ...unlimited } = terms
  const waitsAgain = pool.acquire(unlimited)
  await clock.advance(60_000)
  await second.release()
  await clock.advance(0)
  const unrenewed = await waitsAgain
  await clock.advance(950)
  assert.equal(unrenewed.state, 'held', 'it begins with its whole ttl')
  await clock.advance(60)
  assert.equal(unrenewed.state, 'lost')
  await locks.close()
})

test('a holder that the store does not list does not count as dead', async () => {
  const store = memory()
  await using locks = createLocks((env) => {
    const driver = store(env)
    return {
      ...driver,
      // As redis with more than 10,000 holders of one name.
      async inspect(name) {
        const { holders, ...standing } = await driver.inspect(name)
        return { ...standing, holders: [], unlisted: holders.length }
      },
    }
  })
  const pool = locks.pool('p', { permits: 1 })
  const lease = await pool.acquire()
  assert.equal(await pool.tryAcquire(), undefined)
  await lease.release()
  assert.notEqual(await pool.tryAcquire(), undefined)
})

test('holders() lists who came while it looked, when the one before has left by then', async () => {
  const store = memory()
  let meanwhile: (() => Promise<unknown>) | undefined
  await using locks = createLocks((env) => {
    const driver = store(env)
    return {
      ...driver,
      async inspect(name) {
        const act = meanwhile
        meanwhile = undefined
        await act?.()
        return driver.inspect(name)
      },
    }
  })
  const pool = locks.pool('p', { permits: 2 })
  const first = await pool.acquire()
  meanwhile = async () => {
    await pool.acquire({ note: 'second' })
    await first.release()
  }
  assert.deepEqual(
    (await pool.holders()).map(({ note }) => note),
    ['second'],
  )
})
