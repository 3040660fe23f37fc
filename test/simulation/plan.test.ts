// The make-up of the schedules: docs/simulation.md says how many are small, and that no fault of a store is left out.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createPlan } from '../../lab/simulation/plan.js'
import { memoryStore } from '../../lab/simulation/stores/memory.js'
import type { StoreKind } from '../../lab/simulation/stores/store.js'
import { tableStore } from '../../lab/simulation/stores/table.js'
import { leakCheck } from '../support/leaks.js'

const plansOf = (kind: StoreKind, seed: number) =>
  Array.from({ length: 2_000 }, (_, number) => createPlan(kind, seed, number))
const table = tableStore()
const plans = plansOf(table, 1)

test('a seed and a number always mean the same plan, and no other number means it', () => {
  assert.deepEqual(plansOf(table, 1), plans)
  assert.equal(new Set([...plans, ...plansOf(table, 2)].map((plan) => JSON.stringify(plan))).size, 4_000)
})

test('nine of ten plans are small, the others are not', () => {
  const small = plans.filter(({ rates }) => rates.length === 2)
  assert.ok(Math.abs(small.length / plans.length - 0.9) < 0.03, `${small.length}`)
  const sizes = (of: typeof plans) => [...new Set(of.map(({ visits }) => visits.length))].sort()
  assert.deepEqual(sizes(small), [2, 3, 4])
  assert.deepEqual(sizes(plans), [2, 3, 4, 5, 6, 7, 8])
})

test('whatever a store can suffer happens, and nothing else', () => {
  const suffered = (kind: StoreKind) =>
    new Set(plansOf(kind, 3).flatMap(({ faults }) => faults.map((fault) => fault.kind)))
  assert.deepEqual(suffered(table), new Set(['stall', 'sleep', 'kill', ...table.faults]))
  assert.deepEqual(suffered(memoryStore), new Set())
})

after(leakCheck)
