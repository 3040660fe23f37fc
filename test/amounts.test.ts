// What is tried at random in one run of the tests is as much as the documentation says, and enough.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { schedules, sequences } from './support/amounts.js'
import { read } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

const page = read('docs/simulation.md').replace(/\s+/g, ' ')
const told = (count: number) => count.toLocaleString('en')
const sum = (counts: readonly number[]) => counts.reduce((one, other) => one + other, 0)

test('there are at least 160,000 simulated schedules', () => {
  const all = sum(Object.values(schedules))
  assert.ok(all >= 160_000, told(all))
  assert.ok(page.includes(`${told(all)} schedules in every \`npm test\``), told(all))
  for (const [file, count] of Object.entries(schedules))
    assert.ok(page.includes(`[${told(count)}](../test/${file}.test.ts)`), `${file}: ${told(count)}`)
})

test('there are at least 100,000 random sequences', () => {
  const counts = Object.values(sequences).map(({ properties, each }) => properties * each)
  const all = sum(counts)
  assert.ok(all >= 100_000, told(all))
  assert.ok(page.includes(`${told(all)} sequences of random commands`), told(all))
  for (const [i, file] of Object.keys(sequences).entries())
    assert.ok(page.includes(`[${told(counts[i] ?? 0)}](../test/${file}.test.ts)`), file)
})

test('every file that is named takes its number from the list', () => {
  for (const file of [...Object.keys(schedules), ...Object.keys(sequences)])
    assert.ok(read(`test/${file}.test.ts`).includes(`['${file}']`), file)
})

after(leakCheck)
