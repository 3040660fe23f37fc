import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import {
  findEntry,
  grantFromHead,
  holdersOfClosed,
  type PoolEntry,
  type PoolState,
  withoutEntry,
  withRequest,
} from '../../src/locks/pool-state.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

const holds = (attempt: string, take: number): PoolEntry => ({ attempt, take, in: true })
const waits = (attempt: string, take: number): PoolEntry => ({ attempt, take, in: false })
const inside = ({ line }: PoolState) => line.filter((entry) => entry.in).map((entry) => entry.attempt)

for (const [what, state, expected] of [
  ['requests that fit', { size: 3, line: [waits('a', 1), waits('b', 2)] }, ['a', 'b']],
  [
    'none past a large one at the head',
    { size: 3, line: [holds('a', 1), waits('b', 3), waits('c', 1)] },
    ['a'],
  ],
  ['none beyond the size', { size: 2, line: [waits('a', 1), waits('b', 1), waits('c', 1)] }, ['a', 'b']],
  ['none after the pool was made smaller', { size: 1, line: [holds('a', 2), waits('b', 1)] }, ['a']],
  ['none while it is closed', { size: 3, closed: true, line: [holds('a', 1), waits('b', 1)] }, ['a']],
] as const satisfies readonly (readonly [string, PoolState, readonly string[]])[])
  test(`the head of a pool's queue grants ${what}`, () =>
    assert.deepEqual(inside(grantFromHead(state)), expected))

test('a request is added once, and a single attempt only if it is granted at once', () => {
  const full: PoolState = { size: 1, line: [holds('a', 1)] }
  assert.equal(withRequest(full, 'b', 1, true), undefined)
  const queued = withRequest(full, 'b', 1, false)
  assert.deepEqual(queued?.line, [holds('a', 1), waits('b', 1)])
  assert.equal(queued && withRequest(queued, 'b', 1, false), queued)
  assert.deepEqual(findEntry(withRequest({ size: 1, line: [] }, 'c', 1, true), 'c'), waits('c', 1))
  assert.equal(withRequest({ ...full, closed: true }, 'b', 1, false), undefined)
})

test('an entry that leaves makes room for the next', () => {
  const state: PoolState = { size: 1, line: [holds('a', 1), waits('b', 1)] }
  assert.deepEqual(inside(grantFromHead(withoutEntry(state, 'a'))), ['b'])
})

test('only a closed pool has holders to wait for', () => {
  const cell = (state: PoolState) => ({ value: JSON.stringify(state), version: 1 }) as never
  const line = [holds('a', 1), waits('b', 1)]
  assert.equal(holdersOfClosed(cell({ size: 1, line })), undefined)
  assert.deepEqual(holdersOfClosed(cell({ size: 1, line, closed: true })), [holds('a', 1)])
})
