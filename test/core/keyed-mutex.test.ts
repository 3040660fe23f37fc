// Concurrent changes of one cell inside one process.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { DriverFactory } from 'holdfast'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { KeyedMutex } from '../../src/core/keyed-mutex.js'
import { leakCheck } from '../support/leaks.js'

/** Memory, with its requests about cells counted. */
function counted(): { readonly factory: DriverFactory; readonly count: { read: number; write: number } } {
  const count = { read: 0, write: 0 }
  const factory: DriverFactory = (env) => {
    const driver = memory()(env)
    const { cells } = driver
    assert.ok(cells)
    return {
      ...driver,
      cells: {
        read: (...given) => {
          count.read++
          return cells.read(...given)
        },
        write: (...given) => {
          count.write++
          return cells.write(...given)
        },
        changed: (...given) => cells.changed(...given),
      },
    }
  }
  return { factory, count }
}

test('forty concurrent countdowns send a few requests each, not forty', async (t) => {
  const { factory, count } = counted()
  const locks = createLocks(factory)
  t.after(() => locks.close())
  const latch = locks.latch('forty')
  await latch.setCount(40)
  const before = { ...count }
  const left = await Promise.all(Array.from({ length: 40 }, () => latch.countDown()))
  assert.equal(new Set(left).size, 40)
  assert.equal(Math.min(...left), 0)
  const cost = { read: count.read - before.read, write: count.write - before.write }
  assert.ok(cost.read <= 80 && cost.write <= 80, `${cost.read} looks, ${cost.write} changes`)
})

test('a waiter that gives up lets those behind it move up, and leaves nothing', async () => {
  const line = new KeyedMutex()
  const never = new AbortController().signal
  const gone = new AbortController()
  const reason = new Error('no longer wanted')
  const order: string[] = []
  const first = await line.acquire('cell', never)
  const second = line.acquire('cell', gone.signal).catch((error: unknown) => error)
  const third = line.acquire('cell', never).then((end) => {
    order.push('third')
    end()
  })
  const other = await line.acquire('another cell', never)
  other()
  gone.abort(reason)
  assert.equal(await second, reason)
  assert.deepEqual(order, [], 'the first one has not ended')
  first()
  await third
  assert.deepEqual(order, ['third'])
  await new Promise(setImmediate)
  assert.deepEqual([line.has('cell'), line.has('another cell')], [false, false])
})

after(leakCheck)
