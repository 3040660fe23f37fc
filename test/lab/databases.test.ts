// The fault lab against databases, with fixed seeds: seconds here, hours in the soak. And many processes that contend for few names.
// Second tier because it keeps both processors busy for minutes; lab/quick.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { printFindings } from '../../lab/faults/finding.js'
import { runLab } from '../../lab/faults/run.js'
import { storm } from '../../lab/storm/run.js'
import { leakCheck } from '../support/leaks.js'

describe('databases under faults', { concurrency: 2 }, () => {
  for (const [name, seed] of [
    ['postgres', 12],
    ['mysql', 12],
  ] as const) {
    it(`${name}: nothing is held twice, no token goes back, everybody is served`, async (t) => {
      const module = new URL(`../../lab/faults/drivers/${name}.js`, import.meta.url).href
      const result = await runLab({ name, module, seed, seconds: 8, ttl: 500, rate: 4 })
      assert.equal(printFindings(result), '', `npm run faults -- ${name} --seed ${seed}`)
      const { granted } = result.counts
      t.diagnostic(`${result.plan.length} faults, ${granted} granted, ${result.excused.length} excused`)
      assert.ok(result.plan.length >= 15 && granted >= 20, `${result.plan.length} faults, ${granted} granted`)
    })
  }
})

describe('processes that contend for few names', () => {
  for (const store of ['postgres', 'mariadb'] as const) {
    it(`${store}: no deadlock, no error, no lost update`, async (t) => {
      const { acquisitions, deadlocks, errors, lostUpdates, least } = await storm(store, 2, 10)
      t.diagnostic(`${acquisitions} acquisitions, the fewest of one process ${least}`)
      assert.deepEqual({ deadlocks, errors, lostUpdates }, { deadlocks: 0, errors: {}, lostUpdates: 0 })
      assert.ok(acquisitions >= 20, `${acquisitions} acquisitions only`)
    })
  }
})

after(leakCheck)
