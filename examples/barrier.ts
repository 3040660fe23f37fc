/** Three workers load their parts, and none starts to compute before all have loaded; a latch opens when everything is written. */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

const store = memory()
await using coordinator = createLocks(store)
const log: string[] = []

async function worker(part: number): Promise<void> {
  await using locks = createLocks(store)
  log.push(`load ${part}`)
  const inside = await locks.barrier('phase', 3).enter()
  log.push(`compute ${part}`)
  await inside.leave()
  log.push(`write ${part}`)
  await locks.latch('written').countDown()
}

await coordinator.latch('written').setCount(3)
const workers = [1, 2, 3].map(worker)
assert.equal(await coordinator.latch('written').wait(), true)
await Promise.all(workers)
const phases = log.map((line) => line.split(' ')[0])
assert.deepEqual(
  phases,
  ['load', 'compute', 'write'].flatMap((phase) => [phase, phase, phase]),
)
console.log(log.join(', '))
