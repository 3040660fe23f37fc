// The deterministic simulation: many schedules without a violation, the same again from the same seed, and every mistake found.
// HOLDFAST_SCHEDULES makes it longer; `npm run simulate` does 300,000.
import assert from 'node:assert/strict'
import { after, describe, it, test } from 'node:test'
import { failed, shrunk, simulate, simulateMany } from '../../lab/simulation/many.js'
import type { Mistakes } from '../../lab/simulation/run.js'
import { scenarioOf } from '../../lab/simulation/scenario.js'
import { told } from '../../lab/simulation/told.js'
import { leakCheck } from '../support/leaks.js'

const schedules = Number(process.env['HOLDFAST_SCHEDULES'] ?? 3_000)
const seed = Number(process.env['HOLDFAST_LAB_SEED'] ?? Math.floor(Math.random() * 1e9))

test(`${schedules} schedules end well`, async (t) => {
  const tally = await simulateMany(seed, seed + schedules)
  for (const outcome of tally.failed) assert.fail(told(await shrunk(outcome)))
  t.diagnostic(`from seed ${seed}: ${tally.steps} steps, ${tally.acquisitions} acquisitions`)
  assert.equal(tally.schedules, schedules)
  assert.ok(tally.acquisitions > 3 * schedules)
})

test('the same seed is the same schedule, alone or among others', async () => {
  const alone = await simulate(scenarioOf(7))
  const again = await Promise.all([simulate(scenarioOf(8)), simulate(scenarioOf(7)), simulate(scenarioOf(9))])
  assert.equal(again[1].fingerprint, alone.fingerprint)
  assert.notEqual(again[0].fingerprint, alone.fingerprint)
})

const mistakes: readonly (readonly [Mistakes, says: RegExp])[] = [
  [{ store: 'keeps nobody waiting', wire: 'waits for the push alone' }, /liveness|were closed/],
  [{ store: 'a release frees whoever holds' }, /exclusion|read-write|permits/],
  [{ store: 'tokens repeat' }, /tokens/],
  [
    { store: 'a repeated acquire is another' },
    /exclusion|liveness|is left|false-busy|fifo|permits|read-write/,
  ],
  [{ store: 'an overdue hold is renewed' }, /exclusion|read-write|permits/],
  [{ store: 'readers join a writer' }, /read-write/],
  [{ wire: 'deadline from the answer' }, /exclusion|read-write|permits/],
  [{ wire: 'waits for the push alone' }, /liveness|were closed/],
]

describe('the simulation finds', () => {
  for (const [mistake, says] of mistakes) {
    it(Object.values(mistake).join(', and '), async (t) => {
      const { failed: found, schedules } = await simulateMany(seed, seed + 30_000, mistake, 1)
      const [outcome] = found
      assert.ok(outcome !== undefined, `nothing in ${schedules} schedules from seed ${seed}`)
      const story = [...outcome.violations.map(({ rule }) => rule), ...outcome.troubles].join('\n')
      assert.match(story, says)
      t.diagnostic(`after ${schedules} schedules: ${outcome.violations[0]?.rule ?? outcome.troubles[0]}`)
    })
  }
})

test('what is found is made smaller, and still goes wrong', async () => {
  const mistake: Mistakes = { wire: 'deadline from the answer' }
  const { failed: found } = await simulateMany(seed, seed + 30_000, mistake, 1)
  const first = found[0]!
  const small = await shrunk(first, mistake)
  assert.ok(failed(small))
  const size = ({ scenario }: typeof small) => scenario.tasks.length + scenario.faults.length
  assert.ok(size(small) <= size(first))
  assert.ok(small.scenario.tasks.length <= 3, told(small))
})

after(leakCheck)
