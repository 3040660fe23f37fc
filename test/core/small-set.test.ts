import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { SmallSet } from '../../src/core/small-set.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

/** Every sequence of changes: 0 to 2 adds one of three members, 3 to 5 removes it. */
function* sequences(steps: number): Iterable<readonly number[]> {
  if (steps === 0) yield []
  else for (const rest of sequences(steps - 1)) for (let step = 0; step < 6; step++) yield [...rest, step]
}

test('a small set does what a set does, through every sequence of six changes', () => {
  const members = ['a', 'b', 'c'].map((name) => ({ name }))
  for (const sequence of sequences(6)) {
    const [small, set] = [new SmallSet<object>(), new Set<object>()]
    for (const step of sequence) {
      const member = members[step % 3] as object
      if (step < 3) {
        small.add(member)
        set.add(member)
      } else assert.equal(small.delete(member), set.delete(member))
      assert.deepEqual([...small], [...set])
      assert.equal(small.size, set.size)
      assert.equal(small.first, [...set][0])
    }
  }
})

test('a member may be removed while the set is iterated', () => {
  const [a, b, c] = [{}, {}, {}]
  for (const members of [[a], [a, b], [a, b, c]]) {
    const small = new SmallSet<object>()
    for (const member of members) small.add(member)
    const seen: object[] = []
    for (const member of small) {
      seen.push(member)
      small.delete(member)
    }
    assert.deepEqual(seen, members)
    assert.equal(small.size, 0)
  }
})
