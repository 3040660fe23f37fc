/** A transfer needs both accounts. Whatever order they are named in, they are locked in one order, so no cycle of waiters can form. */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

await using locks = createLocks(memory())
const balance: Record<string, number> = { ada: 100, ben: 100 }

async function transfer(from: string, to: string, amount: number): Promise<void> {
  await locks.all([locks.mutex(from), locks.mutex(to)]).run(async () => {
    const [a = 0, b = 0] = [balance[from], balance[to]]
    await undefined
    balance[from] = a - amount
    balance[to] = b + amount
  })
}

await Promise.all(
  Array.from({ length: 100 }, (_, i) => (i % 2 ? transfer('ada', 'ben', 3) : transfer('ben', 'ada', 1))),
)
assert.deepEqual(balance, { ada: 0, ben: 200 })
console.log('100 transfers in both directions, nothing lost, nobody stuck:', balance)
