/** Three hosts run the same schedule. Whatever their clocks say, each night's report is written once. */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

const store = memory()
const reports: string[] = []

async function host(name: string): Promise<string> {
  await using locks = createLocks(store)
  const nightly = locks.job('nightly report', { minHold: 60_000, maxHold: 3_600_000 })
  const outcome = await nightly.run(() => reports.push(name))
  return outcome.ran ? 'ran it' : outcome.why
}

console.log('ada:', await host('ada'))
// Its clock is a second behind: the report was written long ago, and is not written again.
console.log('ben:', await host('ben'))
console.log('cleo:', await host('cleo'))
assert.deepEqual(reports, ['ada'])
