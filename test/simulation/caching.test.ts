// Lock caching (`linger`) in the simulation: what is drawn, counted and judged. The schedules themselves are in redis.test.ts.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createPlan, type Plan, type Visit } from '../../lab/simulation/plan.js'
import { play } from '../../lab/simulation/play.js'
import { type Machine, startMachine } from '../../lab/simulation/stores/redis/machine.js'
import { redisStore } from '../../lab/simulation/stores/redis/store.js'
import { leakCheck } from '../support/leaks.js'

let machine: Machine
before(async () => {
  machine = await startMachine()
})
after(() => machine.close())

const lingers = ({ visits }: Plan) => visits.some(({ linger = 0 }) => linger > 0)

test('a store that keeps nothing has the schedules that it had', () => {
  const kind = redisStore(machine)
  for (let number = 0; number < 500; number++) {
    const [keeps, not] = [kind, { ...kind, caching: false }].map((kind) => createPlan(kind, 3, number))
    assert.ok(keeps !== undefined && not !== undefined)
    if (lingers(keeps))
      assert.deepEqual({ ...keeps, visits: [], faults: [] }, { ...not, visits: [], faults: [] })
    else assert.deepEqual(keeps, not)
  }
})

const visit: Visit = {
  ...{ process: 0, at: 0, name: 0, shared: false, permits: 1, wait: -1, ttl: 1_000, fair: false },
  ...{ stay: 3, leaves: 'release', abort: -1 },
}
const planOf = (visits: Plan['visits']): Plan => ({
  ...{ seed: 1, lock: 'mutex', rates: [0, 0], visits, faults: [], closes: 1_000 },
})

test('what nobody asks for is used again each time but the first, and what another asks for is given', async () => {
  const keeper: Visit = { ...visit, linger: 1_000_000, returns: 5, pause: 40 }
  const alone = await play(planOf([keeper]), redisStore(machine))
  assert.ok(alone.caching.reused >= 4, `${alone.caching.reused}`)
  for (const wait of [-1, 0]) {
    const other: Visit = { ...visit, process: 1, at: 150, wait }
    const { caching, violations, complaints } = await play(planOf([keeper, other]), redisStore(machine))
    assert.deepEqual([...violations, ...complaints], [])
    assert.equal(caching.gaveWay, 1)
    assert.equal(caching.askedAgain, wait === 0 ? 1 : 0)
  }
})

after(leakCheck)
