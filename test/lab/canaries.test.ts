// Deliberately broken locks through the fault lab. If one is not caught, the lab is blind, and its results on our locks are worthless.
// Second tier because it keeps both processors busy for minutes; verify/injected.test.ts shows for every change that the checkers see.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { printViolation } from 'holdfast/verify'
import { canaries } from '../../lab/canaries/mistakes.js'
import { controlModule, tryCanary } from '../../lab/canaries/run.js'
import { runLab } from '../../lab/faults/run.js'
import { leakCheck } from '../support/leaks.js'

/** The same faults in every run of the tests; `npm run canaries` and the soak take others. */
const seed = Number(process.env['HOLDFAST_LAB_SEED'] ?? 7)
/** Those that show only when nobody comes to an end take the longest: `npm run canaries` has them all. */
const slow = ['setnx then expire', 'a zombie']
const names = Object.keys(canaries).filter((name) => !slow.includes(name))

describe('the lab catches', { concurrency: 2 }, () => {
  for (const name of names) {
    it(`${name}: ${canaries[name]!.mistake}`, async (test) => {
      const { caught, took, granted } = await tryCanary(name, seed)
      assert.ok(
        caught !== undefined,
        `not seen in ${granted} acquisitions: npm run canaries -- '${name}' --seed ${seed}`,
      )
      // Faults are done for as long as its budget lasts, and no longer.
      test.diagnostic(`${caught.rule} after ${took.toFixed(1)} s, seed ${seed}`)
    })
  }
})

it('the same lock without a mistake passes under the same faults', async () => {
  const only = ['worker', 'connections: re', 'server: pause', 'forget scripts']
  const result = await runLab({
    name: 'control',
    module: controlModule,
    seed,
    seconds: 6,
    ttl: 300,
    rate: 6,
    only,
  })
  const of = ['exclusion', 'tokens', 'guard', 'witness']
  const told = result.violations.filter(({ rule }) => of.includes(rule)).map(printViolation)
  assert.equal(told.slice(0, 3).join('\n\n'), '', `seed ${seed}`)
  assert.ok(result.counts.granted > 100, `${result.counts.granted} acquisitions only`)
})

it('there are at least twelve', () => {
  assert.ok(Object.keys(canaries).length >= 12)
  assert.ok(names.length >= 12)
})

after(leakCheck)
