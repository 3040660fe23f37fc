// The suites run at their smallest scale: every figure is there, and what is counted is exact. Times mean nothing here.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Figure } from '../../bench/figure.js'
import type { Scale } from '../../bench/suite.js'
import { measureMemory } from '../../bench/suites/memory.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

const tiny: Scale = {
  effort: { rounds: 2, slice: 1, fixed: 3 },
  waiters: 10,
  leases: 20,
  handOvers: 8,
  kills: 1,
}
/** The rounds that count and the one before them. */
const rounds = tiny.effort.rounds + 1

function assertMeasured(figures: readonly Figure[]): void {
  for (const { what, ours, floor } of figures) {
    const values = [ours, ...(floor === undefined ? [] : [floor.value, floor.ratio])]
    for (const { median, min, max, runs } of values) {
      assert.ok(Number.isFinite(median) && min <= median && median <= max && runs > 0, what)
    }
  }
}

test('memory: all figures, and every hand-over is counted', async () => {
  const figures = await measureMemory(tiny)
  assertMeasured(figures)
  assert.equal(figures.length, 6)
  const handOvers = figures.find(({ what }) => what.startsWith('hand-overs'))
  assert.equal(handOvers?.counts?.['hand-overs'], tiny.waiters * 3 * rounds)
})
