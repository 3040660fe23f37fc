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

const runs = schedules.first['simulation/table']

test(`table: ${runs.toLocaleString('en')} schedules break nothing`, () => nothingFound('table', runs))

type Row = readonly [process: number, at: number, wait: number, ttl: number, stay: number]

const mutex = (visits: readonly Row[], faults: Plan['faults'], closes: number): Plan => ({
  ...{ seed: 1, lock: 'mutex', rates: [0, 0, 0], faults, closes },
  visits: visits.map(([process, at, wait, ttl, stay]) => ({
    ...{ process, at, wait, ttl, stay, name: 0, shared: false, permits: 1, fair: false },
    ...{ leaves: 'release', abort: -1 },
  })),
})
const stall = (at: number, process: number, ms: number) => ({ at, kind: 'stall', process, ms }) as const
const reader = { name: 0, shared: true, permits: 1, fair: true, leaves: 'release', abort: 200 } as const

/** Found in soaks. In none of them did the core break a promise. */
const found: Readonly<Record<string, Plan>> = {
  'a try that was asked again after a stall, and granted to nobody': mutex(
    [
      [2, 391, -1, 100, 40],
      [0, 296, 0, 100, 400],
      [1, 102, 0, 100, 150],
      [1, 11, -1, 100, 400],
      [0, 320, 0, 100, 3],
    ],
    [stall(297, 0, 20), stall(679, 1, 700), stall(299, 0, 700), stall(318, 0, 700)],
    1_000,
  ),
  'two tries after a stall, the first asked again and cancelled': mutex(
    [
      [0, 7, -1, 1_000, 3],
      [1, 5, 0, 1_000, 3],
      [1, 10, 0, 1_000, 3],
    ],
    [{ at: 4, kind: 'freeze', process: 0, ms: 20 }, stall(8, 1, 700)],
    0,
  ),
  'a reader that gave up two milliseconds before it learned of its grant': {
    ...{ seed: 2049175088, lock: 'readWrite', rates: [0, 0], faults: [], closes: 0 },
    visits: [
      { ...reader, process: 0, at: 151, wait: 40, ttl: 300, stay: 0 },
      { ...reader, process: 1, at: 159, wait: -1, ttl: 100, stay: 150 },
      { ...reader, process: 0, at: 135, wait: -1, ttl: 100, stay: 40, shared: false, fair: false },
    ],
  },
}

for (const [what, plan] of Object.entries(found)) {
  test(`table: ${what}`, async () => {
    const outcome = await play(plan, tableStore())
    assert.equal(isBroken(outcome), false, JSON.stringify(outcome.violations))
  })
}

after(leakCheck)
