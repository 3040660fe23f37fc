/** One at a time: two tasks that would otherwise overwrite each other's count. */
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

await using locks = createLocks(memory())
let count = 0

async function addOne(): Promise<void> {
  await locks.mutex('count').run(async (lease) => {
    const seen = count
    await pause(1) // the moment in which, without the lock, everybody reads the same number
    lease.assertHeld()
    count = seen + 1
  })
}

await Promise.all(Array.from({ length: 50 }, addOne))
assert.equal(count, 50)
console.log(`50 tasks added one each: ${count}`)
