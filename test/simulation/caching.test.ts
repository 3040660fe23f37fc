// Lock caching (`linger`) in the simulation: what is drawn, counted and judged, and that mistakes in it are caught. The schedules themselves are in redis.test.ts.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { cachingMistakes } from '../../lab/canaries/caching.js'
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

test('a store without lock caching keeps its schedules', () => {
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

test('a lock that nobody else requests is reused every time but the first, and one that another client requests is released', async () => {
  const keeper: Visit = { ...visit, linger: 1_000_000, returns: 5, pause: 40 }
  const alone = await play(planOf([keeper]), redisStore(machine))
  assert.ok(alone.caching.reused >= 4, `${alone.caching.reused}`)
  const ask = async (wait: number, seed: number) => {
    const other: Visit = { ...visit, process: 1, at: 150, wait }
    const plan = { ...planOf([keeper, other]), seed }
    const { caching, violations, complaints } = await play(plan, redisStore(machine))
    assert.deepEqual([...violations, ...complaints], [])
    assert.equal(caching.askedAgain, wait === 0 ? caching.gaveWay : 0)
    return caching.gaveWay
  }
  assert.equal(await ask(-1, 1), 1)
  // A single attempt waits for four round trips like its first one. Some are refused, because those drawn for them are longer.
  let given = 0
  for (let seed = 1; seed <= 40; seed++) given += await ask(0, seed)
  assert.ok(given >= 16, `${given} of 40`)
})

/** For each mistake, what meets it: the first process comes back for as long as it may, the second one wants the lock meanwhile. */
const keeps: Visit = { ...visit, linger: 1_000_000, returns: 30, pause: 40 }
const meets: Readonly<Record<string, Partial<Plan>>> = {
  'reuses what has run out': {
    visits: [keeps, { ...visit, process: 1, at: 1_500, stay: 600 }],
    faults: [{ kind: 'stall', process: 0, at: 300, ms: 1_500 }],
  },
  'reuses what it has given back': { visits: [keeps, { ...visit, process: 1, at: 150, stay: 300 }] },
  'hides the holder': { visits: [keeps, { ...visit, process: 1, at: 150, wait: 0 }] },
  'gives nothing back': {
    visits: [
      { ...keeps, returns: 3 },
      { ...visit, process: 1, at: 500 },
    ],
  },
}

for (const [is, { mistake, caughtBy, breaking }] of Object.entries(cachingMistakes)) {
  test(`redis that ${is} is found out: ${mistake}`, async () => {
    const plan: Plan = { ...planOf([]), ...meets[is] }
    const sound = await play(plan, redisStore(machine))
    assert.deepEqual([...sound.violations, ...sound.complaints], [])
    assert.ok(sound.caching.reused >= 3, `${sound.caching.reused}`)
    const { violations } = await play(plan, redisStore(machine, { is, breaking }))
    assert.ok(
      violations.some(({ rule }) => caughtBy.includes(rule)),
      `found: ${violations.map(({ rule }) => rule)}`,
    )
  })
}

after(leakCheck)
