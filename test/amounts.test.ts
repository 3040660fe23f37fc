// The number of random trials in one run of the tests is the one in the documentation, and sufficient.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { proof } from '../scripts/proof.js'
import { testFiles } from '../scripts/test-files.js'
import { schedules, sequences } from './support/amounts.js'
import { listFiles, read } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

const page = read('docs/simulation.md').replace(/\s+/g, ' ')
const told = (count: number) => count.toLocaleString('en')
const sum = (counts: readonly number[]) => counts.reduce((one, other) => one + other, 0)

const both = { ...schedules.first, ...schedules.second }

test('there are at least 30,000 simulated schedules in the first tier, and 300,000 in both', () => {
  const [first, all] = [sum(Object.values(schedules.first)), sum(Object.values(both))]
  assert.ok(first >= 30_000, told(first))
  assert.ok(all >= 300_000, told(all))
  assert.ok(page.includes(`${told(first)} schedules in every \`npm test\``), told(first))
  assert.ok(page.includes(`${told(all)} in every \`npm run proof\``), told(all))
  for (const [file, count] of Object.entries(both))
    assert.ok(page.includes(`[${told(count)}](../test/${file}.test.ts) |`), file)
  for (const { source, tier } of testFiles())
    for (const [of, counts] of Object.entries(schedules))
      if (Object.keys(counts).some((file) => source === `test/${file}.test.ts`))
        assert.equal(tier, of, source)
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
  for (const file of [...Object.keys(both), ...Object.keys(sequences)])
    assert.ok(read(`test/${file}.test.ts`).includes(`['${file}']`), file)
})

test('the proof has all of these files, the live runs that count faults and acquisitions, and the canaries', () => {
  const files = [...Object.keys(both), ...Object.keys(sequences), 'simulation/mistakes']
  for (const file of [...files, 'amounts', 'lab/live', 'lab/databases', 'lab/canaries'])
    assert.ok(
      proof.some((part) => `test/${file}.test.ts`.includes(part)),
      file,
    )
  for (const part of proof)
    assert.ok(
      listFiles('test', '.test.ts').some((file) => file.includes(part)),
      part,
    )
})

after(leakCheck)
