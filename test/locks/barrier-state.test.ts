import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type BarrierState, barrierChange, entered, left } from '../../src/locks/barrier-state.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

const empty: BarrierState = { parties: 2, round: 1, open: false, members: [] }

test('a barrier opens when the last participant comes, and its round ends when the last one leaves', () => {
  const one = entered(empty, 'a')
  assert.deepEqual(one, { parties: 2, round: 1, open: false, members: ['a'] })
  const two = entered(one, 'b')
  assert.deepEqual(two, { parties: 2, round: 1, open: true, members: ['a', 'b'] })
  const half = left(two, 'a', two.members)
  assert.deepEqual(half, { parties: 2, round: 1, open: true, members: ['b'] })
  assert.deepEqual(left(half, 'b', half.members), { parties: 2, round: 2, open: false, members: [] })
})

test('a participant that comes while a round is open does not enter it', () => {
  const open: BarrierState = { parties: 2, round: 1, open: true, members: ['a', 'b'] }
  assert.equal(entered(open, 'c'), open)
  assert.deepEqual(entered(open, 'a').members, ['a', 'b'])
})

test('a round whose members have all died ends with the next that comes', () => {
  const died: BarrierState = { parties: 2, round: 1, open: true, members: [] }
  assert.deepEqual(entered(died, 'c'), { parties: 2, round: 2, open: false, members: ['c'] })
})

test('one that leaves before the barrier opens does not end the round', () => {
  const waiting: BarrierState = { parties: 2, round: 3, open: false, members: ['a'] }
  assert.deepEqual(left(waiting, 'a', ['a']), { parties: 2, round: 3, open: false, members: [] })
})

test('an unchanged state is not written, and only an empty one is forgotten', () => {
  const full: BarrierState = { ...empty, members: ['a'] }
  const kept = barrierChange(undefined, full)
  assert.equal(kept?.keep, Number.POSITIVE_INFINITY)
  assert.equal(barrierChange({ value: kept?.value ?? '', version: 1 } as never, full), undefined)
  assert.equal(barrierChange(undefined, empty)?.keep, 86_400_000)
})
