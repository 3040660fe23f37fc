// Each broken set of scripts is caught in the simulation of Redis.
// Second tier because it tests the simulation itself; redis.test.ts shows for every change that the mistakes are still ones in the scripts.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { search } from '../../lab/simulation/search.js'
import { type Machine, startMachine } from '../../lab/simulation/stores/redis/machine.js'
import { scriptMistakes } from '../../lab/simulation/stores/redis/mistakes.js'
import { redisStore } from '../../lab/simulation/stores/redis/store.js'
import { leakCheck } from '../support/leaks.js'

let machine: Machine
before(async () => {
  machine = await startMachine()
})
after(() => machine.close())

for (const mistake of scriptMistakes) {
  test(`redis that ${mistake.is} is found out`, async () => {
    const found = await search(redisStore(machine, mistake), 4_000, 20, ({ violations }) =>
      violations.some(({ rule }) => mistake.breaks.includes(rule)),
    )
    assert.ok(found.plan, `not within ${found.runs} schedules`)
  })
}

after(leakCheck)
