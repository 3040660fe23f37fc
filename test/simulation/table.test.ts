// Schedules under virtual time over the reference table behind a wire: none breaks a promise. The seed is fixed, so a
// failure is a failure for everybody; `npm run simulate -- table --seed N` looks at other schedules.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Plan } from '../../lab/simulation/plan.js'
import { play } from '../../lab/simulation/play.js'
import { isBroken } from '../../lab/simulation/search.js'
import { tableStore } from '../../lab/simulation/stores/table.js'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { nothingFound } from './support/played.js'

const runs = schedules['simulation/table']

test(`table: ${runs.toLocaleString('en')} schedules break nothing`, () => nothingFound('table', runs))

/** Found in a soak: a try that was sent again after a stall was told "busy", and its second sending granted to nobody. */
const sentAgain: Plan = {
  seed: 1,
  lock: 'mutex',
  rates: [0, 0, 0],
  visits: (
    [
      [2, 391, -1, 40, -1],
      [0, 296, 0, 400, -1],
      [1, 102, 0, 150, 0],
      [1, 11, -1, 400, -1],
      [0, 320, 0, 3, -1],
    ] as const
  ).map(([process, at, wait, stay, abort]) => ({
    ...{ name: 0, shared: false, permits: 1, ttl: 100, fair: false, leaves: 'release' as const },
    ...{ process, at, wait, stay, abort },
  })),
  faults: (
    [
      [297, 0, 20],
      [679, 1, 700],
      [299, 0, 700],
      [318, 0, 700],
    ] as const
  ).map(([at, process, ms]) => ({ at, kind: 'stall' as const, process, ms })),
  closes: 1_000,
}

test('table: a try that was sent again after a stall is in nobody’s way', async () => {
  const outcome = await play(sentAgain, tableStore())
  assert.equal(isBroken(outcome), false, JSON.stringify(outcome.violations))
})

after(leakCheck)
