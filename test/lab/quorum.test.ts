// ZooKeeper, etcd and Consul under a short plan of faults each, always the same one. Long runs, and ensembles: `npm run faults`.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { printViolation } from 'holdfast/verify'
import { runLab } from '../../lab/faults/run.js'
import { leakCheck } from '../support/leaks.js'

describe('no rule is broken, every waiter is served and nothing is left under faults on', {
  concurrency: 3,
}, () => {
  for (const [name, seed] of Object.entries({ zookeeper: 1, etcd: 1, consul: 1 })) {
    it(name, async (test) => {
      const module = new URL(`../../lab/faults/drivers/${name}.js`, import.meta.url).href
      const result = await runLab({ name, module, seed, seconds: 6, workers: 3, rate: 4 })
      const { violations, complaints, counts, faults, excused, took } = result
      assert.equal(violations.slice(0, 3).map(printViolation).join('\n\n'), '')
      assert.deepEqual(complaints, [])
      assert.ok(Object.keys(faults).length >= 6, `only ${Object.keys(faults).join(', ')}`)
      assert.ok(counts.granted > 30, `${counts.granted} acquisitions only`)
      test.diagnostic(`${counts.granted} granted, ${excused.length} excused, ${took.toFixed(0)} s`)
    })
  }
})

after(leakCheck)
