// The machine may pause a process at any moment, also between two clock readings in one call of `release`.
import assert from 'node:assert/strict'
import { after, afterEach, test } from 'node:test'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { leakCheck } from '../support/leaks.js'

const now = performance.now.bind(performance)
afterEach(() => {
  performance.now = now
})

/** From its reading number `n` on, the clock is a second ahead. @returns how often it has been read */
function stallAt(n: number): () => number {
  let read = 0
  performance.now = () => now() + (++read >= n ? 1_000 : 0)
  return () => read
}

test('wherever a release is stopped until its lease has run out, the next one of the process gets the lock', async () => {
  const outcomes: string[] = []
  for (let n = 1, read = n; read >= n; n++) {
    const locks = createLocks(memory(), { ttl: 500 })
    const lease = await locks.mutex('x').acquire()
    const reads = stallAt(n)
    const released = lease.release()
    read = reads()
    const outcome = await released
    outcomes.push(outcome)
    const next = await locks.mutex('x').acquire({ wait: 2_000 })
    await next.release()
    performance.now = now
    await locks.close()
  }
  // The clock is read more than once: also between two readings it was stopped.
  assert.ok(outcomes.filter((one) => one === 'lost').length >= 2, `${outcomes}`)
})

after(leakCheck)
