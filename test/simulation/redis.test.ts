// Schedules under virtual time over the Redis driver, with a server simulated below the level of commands.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Plan, Visit } from '../../lab/simulation/plan.js'
import { play } from '../../lab/simulation/play.js'
import { search } from '../../lab/simulation/search.js'
import { type Machine, startMachine } from '../../lab/simulation/stores/redis/machine.js'
import { scriptMistakes } from '../../lab/simulation/stores/redis/mistakes.js'
import { redisStore } from '../../lab/simulation/stores/redis/store.js'
import type { StoreKind } from '../../lab/simulation/stores/store.js'
import { acquire } from '../../src/drivers/redis/scripts/acquire.js'
import { together } from '../../src/drivers/redis/scripts/acquire-many.js'
import { meet } from '../../src/drivers/redis/scripts/server-marker.js'
import { cancel, downgrade, force, further, release, renew } from '../../src/drivers/redis/scripts/verbs.js'
import { schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { countsOf } from './support/played.js'

const runs = schedules.first['simulation/redis']
let machine: Machine
before(async () => {
  machine = await startMachine()
})
after(() => machine.close())

const visit: Visit = {
  ...{ process: 0, at: 0, name: 0, shared: true, permits: 1, wait: -1, ttl: 1_000, fair: true },
  ...{ stay: 40, leaves: 'release', abort: -1 },
}
const planOf = (lock: Plan['lock'], seed: number, visits: Plan['visits']): Plan => ({
  ...{ seed, lock, rates: [0, 0, 0], visits, faults: [], closes: 1_000 },
})

test(`redis: ${runs.toLocaleString('en')} schedules break nothing, with locks that stay with their process`, async () => {
  const [reused = 0, gaveWay = 0, tried = 0] = await countsOf('redis', runs)
  // A schedule always plays the same.
  assert.ok(reused > 100 && gaveWay > 5 && tried > 0, `${reused}, ${gaveWay}, ${tried}`)
})

test('`quarantine: detected` lets in a process that first meets a server after a loss, and nobody else', async () => {
  const found = await search(redisStore(machine, undefined, false), 1_000, 20)
  assert.equal(found.plan, undefined)
  assert.ok(found.admitted > 0)
})

const holder: Visit = { ...visit, shared: false, fair: false, stay: 400 }
const second: Visit = { ...holder, process: 1, at: 60, stay: 40 }
const earlier: Visit = { ...second, at: 0, name: 1, stay: 0 }
const trusting = scriptMistakes.find(({ is }) => is.startsWith('trusts a server'))

const faults: Plan['faults'] = [{ kind: 'flush', process: 0, at: 50, ms: 20 }]

test('`quarantine: detected` admits a second holder after a FLUSHALL, if it has not met the server before', async () => {
  const plan = { ...planOf('mutex', 1, [holder, second]), faults }
  const { violations, admitted } = await play(plan, redisStore(machine, undefined, false))
  assert.deepEqual([violations, admitted], [[], 1])
  const strict = await play(plan, redisStore(machine))
  assert.deepEqual([strict.violations, strict.admitted], [[], 0])
})

test('`quarantine: detected` does not admit it after a FLUSHALL, if it has', async () => {
  assert.ok(trusting)
  const plan = { ...planOf('mutex', 1, [holder, earlier, second]), faults }
  const right = await play(plan, redisStore(machine, undefined, false))
  assert.deepEqual([right.violations, right.admitted], [[], 0])
  const { violations, admitted } = await play(plan, redisStore(machine, trusting, false))
  assert.deepEqual([violations.map(({ rule }) => rule), admitted], [['exclusion'], 0])
})

const single: Visit = { ...visit, shared: false, wait: 0, ttl: 100, fair: false, linger: 0, returns: 0 }
const refusals: Readonly<Record<string, Plan>> = {
  'its machine slept': {
    ...planOf('readWrite', 2, [
      { ...single, process: 1, at: 6, stay: 3, pause: 200 },
      { ...single, stay: 3, linger: 1_000_000, pause: 40 },
    ]),
    faults: [{ at: 4, kind: 'sleep', process: 1, ms: 2_500 }],
  },
  'another one was granted to a process that had stalled': {
    ...planOf('mutex', 1_260_305_227, [
      { ...single, at: 42, stay: 150 },
      { ...single, at: 55, wait: -1, ttl: 300, stay: 150 },
      { ...single, at: 55, wait: -1, stay: 150 },
      { ...single, process: 1, at: 45, stay: 150 },
    ]),
    faults: [
      { at: 61, kind: 'stall', process: 0, ms: 2_500 },
      { at: 50, kind: 'stall', process: 0, ms: 700 },
    ],
  },
  'another one queued for a cached lock': {
    ...planOf('readWrite', 1_694_748_459, [
      { ...single, process: 1, at: 30, stay: 0, linger: 5, returns: 5, pause: 4 },
      { ...single, at: 32, stay: 3 },
      { ...single, at: 44, name: 1, shared: true, ttl: 300, stay: 40, pause: 4 },
    ]),
    faults: [{ at: 36, kind: 'forgetScripts', process: 0, ms: 700 }],
  },
}

for (const [why, plan] of Object.entries(refusals))
  test(`a single attempt may be refused because ${why}`, async () => {
    const played = await play({ ...plan, rates: [0, 0], closes: 0 }, redisStore(machine))
    assert.deepEqual(played.violations, [])
    const refused = played.history.acquisitions.filter(
      ({ wait, failed }) => wait === 0 && failed !== undefined,
    )
    assert.ok(refused.length > 0, 'the schedule plays otherwise now: nothing was refused')
  })

test('every mistake is one in the scripts as they are', () => {
  const scripts = [acquire, release, renew, cancel, downgrade, force, further, together, meet]
  const texts = scripts.map(({ text }) => text)
  for (const { is, instead } of scriptMistakes)
    for (const [right] of instead)
      assert.ok(
        texts.some((text) => text.includes(right)),
        `${is}: ${right}`,
      )
})

test('a claim that fits beside the holder and is admitted past an earlier waiter that does not fit is caught', async () => {
  const broken = redisStore(machine, {
    is: 'grants any request that fits',
    breaks: ['fifo'],
    instead: [['if S.open and not lined and admits', 'if not lined and admits']],
  })
  const rules = async (lock: Plan['lock'], kind: StoreKind) => {
    const first = { ...visit, stay: 400 }
    const waiter = { ...visit, process: 1, at: 100, shared: false, permits: 3 }
    const { violations } = await play(
      planOf(lock, 1, [first, waiter, { ...visit, process: 2, at: 200 }]),
      kind,
    )
    return violations.map(({ rule }) => rule)
  }
  for (const lock of ['semaphore', 'readWrite'] as const) {
    assert.deepEqual(await rules(lock, broken), ['fifo'])
    assert.deepEqual(await rules(lock, redisStore(machine)), [])
  }
})

test('a claim that fits beside a polling waiter has not overtaken it, even if the room appeared just before', async () => {
  const holder = { ...visit, at: 5, process: 1, permits: 3, shared: false }
  for (let seed = 1; seed <= 60; seed++) {
    const visits = [holder, { ...visit, at: 45 }, { ...visit, process: 1, at: 53 }]
    for (const lock of ['semaphore', 'readWrite'] as const) {
      const { violations } = await play(planOf(lock, seed, visits), redisStore(machine))
      assert.deepEqual(violations, [], `${lock}, seed ${seed}`)
    }
  }
})

after(leakCheck)
