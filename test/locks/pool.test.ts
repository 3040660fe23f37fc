import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { memory } from '../../src/drivers/memory/index.js'
import { createLocks } from '../../src/index.js'
import { gated } from '../support/gated-cells.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

test('whoever leaves a pool that was deleted meanwhile does not bring it back', async () => {
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

test('a waiter that has not heard of it yet is given nothing by a pool that is closed', async () => {
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
