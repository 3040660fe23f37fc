/** Of many concurrent requests for one account, ten may wait; the others are rejected at once as busy. */
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { createLocks, TooManyWaitersError } from 'holdfast'
import { memory } from 'holdfast/memory'

await using locks = createLocks(memory(), { maxPending: 10 })
let served = 0
let refused = 0

async function request(): Promise<void> {
  try {
    await locks.mutex('account:42').run(async () => {
      await pause(1)
      served++
    })
  } catch (error) {
    if (!(error instanceof TooManyWaitersError)) throw error
    refused++
  }
}

const holder = await locks.mutex('account:42').acquire()
const requests = Array.from({ length: 30 }, request)
await pause(1)
assert.equal(refused, 20)
await holder.release()
await Promise.all(requests)
await locks.mutex('account:42').waitUntilFree()
assert.equal(served, 10)
console.log(`${served} requests were served, ${refused} were refused at once`)
