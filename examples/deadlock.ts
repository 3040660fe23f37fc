/** Two transfers lock the same accounts in opposite order. The contradiction is reported; when they deadlock, one is rejected and retried. */
import assert from 'node:assert/strict'
import { createLocks, DeadlockError } from 'holdfast'
import { memory } from 'holdfast/memory'

await using locks = createLocks(memory())
locks.on('order', ({ orders: [now, before] }) => {
  console.log(`careful: ${now.join(' then ')} here, ${before.join(' then ')} elsewhere`)
})
let inside = 0
let broken = 0

async function transfer(from: string, to: string): Promise<void> {
  try {
    await locks.mutex(from).run(async () => {
      inside++
      // On the first try each holds one account before it requests the other.
      while (inside < 2) await new Promise((resolve) => setTimeout(resolve, 5))
      await locks.mutex(to).run(() => undefined)
    })
  } catch (error) {
    if (!(error instanceof DeadlockError)) throw error
    console.log('broken:', error.cycle.join(' and '))
    broken++
    await transfer(from, to)
  }
}

await Promise.all([transfer('ada', 'ben'), transfer('ben', 'ada')])
assert.equal(broken, 1)
console.log('both transfers are done')
