import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createPlan } from '../../lab/faults/plan.js'
import type { Fault } from '../../lab/faults/store.js'
import { leakCheck } from '../support/leaks.js'

const begin = () => undefined
const faults: Fault[] = [
  { kind: 'often', subjects: ['worker 0', 'worker 1', 'worker 2'], weight: 5, begin },
  { kind: 'rare', subjects: ['server 0'], apart: 5_000, lasts: [0.1, 0.5], begin },
  { kind: 'other', subjects: ['server 0', 'worker 1'], begin },
  { kind: 'promotion', subjects: ['master'], also: ['server 0'], weight: 0.5, begin },
]
const options = { seed: 7, span: 60_000, ttl: 500 }

test('the same seed gives the same plan, another seed another', () => {
  assert.deepEqual(createPlan(faults, options), createPlan(faults, options))
  assert.notDeepEqual(createPlan(faults, options), createPlan(faults, { ...options, seed: 8 }))
})

test('at most two faults overlap, never on one subject, and none outlasts the span', () => {
  for (let seed = 0; seed < 200; seed++) {
    const plan = createPlan(faults, { ...options, seed })
    assert.ok(plan.length > 30, `seed ${seed}: ${plan.length} faults only`)
    for (const one of plan) {
      assert.ok(one.at + one.lasts <= options.span)
      const under = plan.filter((other) => other.at <= one.at && one.at < other.at + other.lasts)
      assert.ok(under.length <= 2, `seed ${seed}: ${under.length} at once`)
      const taken = under.flatMap(({ subject }) =>
        subject === 'master' ? ['server 0', 'master'] : [subject],
      )
      assert.equal(new Set(taken).size, taken.length)
    }
  }
})

test('faults overlap, all kinds and subjects come, and those to be kept apart are', () => {
  const plan = createPlan(faults, options)
  const overlaps = plan.filter((one, i) => plan.some((other, j) => j < i && other.at + other.lasts > one.at))
  assert.ok(overlaps.length > 10)
  assert.deepEqual([...new Set(plan.map(({ kind }) => kind))].sort(), ['often', 'other', 'promotion', 'rare'])
  assert.equal(new Set(plan.map(({ subject }) => subject)).size, 5)
  const rare = plan.filter(({ kind }) => kind === 'rare')
  for (const [i, one] of rare.entries()) {
    const before = rare[i - 1]
    if (before !== undefined) assert.ok(one.at - (before.at + before.lasts) >= 5_000)
  }
})

test('kinds of one family are kept apart from each other, and from nothing else', () => {
  const family = { family: 'partition', apart: 3_000, subjects: ['servers'], weight: 3, begin }
  const kin: Fault[] = [
    { ...family, kind: 'leader' },
    { ...family, kind: 'follower' },
  ]
  for (let seed = 0; seed < 50; seed++) {
    const plan = createPlan([...faults, ...kin], { ...options, seed })
    const parted = plan.filter(({ kind }) => kin.some((one) => one.kind === kind))
    assert.ok(parted.length >= 5, `seed ${seed}: ${parted.length}`)
    for (const [i, one] of parted.slice(1).entries()) {
      const before = parted[i]!
      assert.ok(one.at - (before.at + before.lasts) >= 3_000, `seed ${seed}, at ${one.at} ms`)
    }
  }
})

after(leakCheck)
