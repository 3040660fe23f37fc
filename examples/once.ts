/** Two workers get the same order; one of them charges the card, both get the receipt. */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

const store = memory()
await using here = createLocks(store)
await using there = createLocks(store)
let charged = 0

async function charge(locks: typeof here, order: number): Promise<{ receipt: number }> {
  return locks.once(
    `order:${order}`,
    async (lease) => {
      charged++
      // The token travels with the request, so that the payment service can refuse a stale charge.
      return { receipt: lease.token }
    },
    { keep: 60_000 },
  )
}

const [one, two] = await Promise.all([charge(here, 42), charge(there, 42)])
assert.deepEqual(one, two)
assert.equal(charged, 1)
console.log('charged once, and both workers have the receipt', one.receipt)
