import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError, createLocks, type DriverFactory, type Locks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { gated } from '../support/gated-cells.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

test('a deletion whose answer is lost does not take the latch that was closed after it', async () => {
  const store = memory()
  await using others = createLocks(store)
  let lost = 0
  await using locks = losing(store, async () => {
    lost++
    assert.equal(await others.latch('l').setCount(7), true)
  })
  const latch = locks.latch('l')
  await latch.setCount(1)
  assert.equal(await latch.delete(), true)
  assert.equal(lost, 1)
  assert.equal(await others.latch('l').count(), 7)
})

test('a late waiter proceeds if its latch has opened and was closed again', async () => {
  const store = memory()
  const late = gated(store)
  await using locks = createLocks(store)
  const latch = locks.latch('l')
  await latch.setCount(1)
  const waits = late.locks.latch('l').wait({ wait: Number.POSITIVE_INFINITY })
  await late.parked
  late.shut()
  await latch.countDown()
  await latch.setCount(1)
  late.open()
  assert.equal(await waits, true)
  const twice = late.locks.latch('l').wait({ wait: 0 })
  assert.equal(await twice, false, 'the next one is closed')
  await late.locks.close()
})

test('a late waiter proceeds however often the latch was opened and closed meanwhile', async () => {
  const store = memory()
  const late = gated(store)
  await using locks = createLocks(store)
  const latch = locks.latch('l')
  await latch.setCount(1)
  const waits = late.locks.latch('l').wait({ wait: Number.POSITIVE_INFINITY })
  await late.parked
  late.shut()
  for (let round = 0; round < 3; round++) {
    await latch.countDown()
    await latch.setCount(1)
  }
  late.open()
  assert.equal(await waits, true)
  await late.locks.close()
})

test('a waiter that looks late does not take a latch that was set after a deletion for its own', async () => {
  const store = memory()
  const late = gated(store)
  await using locks = createLocks(store)
  const latch = locks.latch('l')
  await latch.setCount(1)
  const waits = late.locks.latch('l').wait({ wait: Number.POSITIVE_INFINITY })
  await late.parked
  late.shut()
  const ended = assert.rejects(waits, { code: 'LATCH_GONE' })
  await latch.delete()
  for (let round = 0; round < 3; round++) {
    await latch.setCount(1)
    await latch.countDown()
  }
  late.open()
  await ended
  await late.locks.close()
})

test('an open latch that was waited for and is kept no longer is reported, not waited for without end', async () => {
  await using locks = createLocks(memory())
  const latch = locks.latch('l')
  await latch.setCount(1, { keep: 0 })
  const waits = latch.wait({ wait: Number.POSITIVE_INFINITY })
  await new Promise(setImmediate)
  const ended = assert.rejects(waits, { code: 'LATCH_GONE', message: /deleted, or it opened and its keep/ })
  await latch.countDown()
  await ended
})

/** The first removal of a cell is carried out, then `meanwhile` is done, and the answer is lost. */
function losing(store: ReturnType<typeof memory>, meanwhile: () => Promise<void>): Locks {
  let first = true
  const factory: DriverFactory = (env) => {
    const driver = store(env)
    const { cells } = driver
    return {
      ...driver,
      acquire: (claim, wait) => driver.acquire(claim, wait),
      inspect: (name) => driver.inspect(name),
      close: () => driver.close(),
      cells: {
        read: (key, signal) => cells!.read(key, signal),
        changed: (key, version, signal) => cells!.changed(key, version, signal),
        async write(key, change, signal) {
          const answer = await cells!.write(key, change, signal)
          if (change.value !== undefined || !first) return answer
          first = false
          await meanwhile()
          throw new BackendError('memory', 'the answer was lost', { unanswered: true })
        },
      },
    }
  }
  return createLocks(factory)
}
