// The suites run at their smallest scale: every figure is there, and counts are exact. Times mean nothing here.
// Second tier because it starts every server there is, for figures that a change of the bench alone can break.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Comparison, Figure, Result } from '../../bench/figure.js'
import type { Scale } from '../../bench/suite.js'
import { measureConsul } from '../../bench/suites/consul.js'
import { measureEtcd } from '../../bench/suites/etcd.js'
import { measureLocal } from '../../bench/suites/local.js'
import { measureMemory } from '../../bench/suites/memory.js'
import { measureMysql } from '../../bench/suites/mysql.js'
import { measurePostgres } from '../../bench/suites/postgres.js'
import { measureRedis } from '../../bench/suites/redis.js'
import { measureRedlock } from '../../bench/suites/redlock.js'
import { measureZookeeper } from '../../bench/suites/zookeeper.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

const tiny: Scale = {
  effort: { rounds: 2, slice: 1, fixed: 3 },
  waiters: 10,
  leases: 20,
  handOvers: 8,
  kills: 1,
  processes: 2,
  lines: [2, 5],
  still: 100,
  competing: 1_000,
  holding: 200,
  stuckAfter: 5000,
  longLine: 40,
}
/** The rounds that count and the one before them. */
const rounds = tiny.effort.rounds + 1

function assertMeasured(results: readonly Result[]): asserts results is readonly Figure[] {
  const figures = results as readonly Figure[]
  for (const { what, ours, floor } of figures) {
    const values = [ours, ...(floor === undefined ? [] : [floor.value, floor.ratio])]
    for (const { median, min, max, runs } of values) {
      assert.ok(Number.isFinite(median) && min <= median && median <= max && runs > 0, what)
    }
  }
}

/** Where grants are passed on with one request, it costs fewer than `fair`, and fewer than without. */
function assertPassed(comparison: Comparison | undefined): void {
  const requests = comparison?.rows.map(({ values }) => values[2]?.median ?? 0) ?? []
  const [passed = 0, fair = 0, without = 0] = requests
  assert.ok(passed >= 1 && passed < 0.75 * fair && passed < 0.75 * without, `requests each: ${requests}`)
}

test('memory: all figures, and every hand-over is counted', async () => {
  const figures = await measureMemory(tiny)
  assertMeasured(figures)
  assert.equal(figures.length, 7)
  const handOvers = figures.find(({ what }) => what.startsWith('hand-overs'))
  assert.equal(handOvers?.counts?.['hand-overs'], tiny.waiters * 3 * rounds)
})

test('postgres: all figures, and the statements are counted', async () => {
  const figures = await measurePostgres(tiny)
  assertMeasured(figures)
  assert.equal(figures.length, 3)
  assert.equal(figures[0]?.counts?.['statements each'], 2)
  assert.ok((figures[2]?.counts?.['hand-overs'] ?? 0) > 0)
})

test('local: all figures, and the calls to the broker are counted', async () => {
  const figures = await measureLocal(tiny)
  assertMeasured(figures)
  assert.equal(figures.length, 8)
  const counts = figures.map(({ counts }) => counts ?? {})
  assert.equal(counts[0]?.['calls each'], 2)
  // Two for each slice: the first acquisition asks, the last release releases, all between them are handed over here.
  assert.equal(counts[1]?.['calls to the broker'], 2 * rounds)
  assert.equal(counts[1]?.['hand-overs'], tiny.waiters * 3 * rounds)
  for (const killed of [4, 5, 6]) assert.equal(counts[killed]?.['kills'], tiny.kills)
})

test('redis: all figures, and the commands are counted', async () => {
  const figures = await measureRedis(tiny)
  assertMeasured(figures)
  assert.equal(figures.length, 4 + tiny.lines.length + 10)
  assert.equal(figures.at(-2)?.counts?.['commands each'], 0)
  for (const { what, counts } of figures.slice(0, 4)) {
    if (what.includes('one by one'))
      assert.deepEqual([counts?.['commands each'], counts?.['of the floor']], [2, 2], what)
    else assert.ok((counts?.['commands each'] ?? 2) < 2, what)
  }
  const handOffs = figures.slice(4, 4 + tiny.lines.length)
  assert.deepEqual(
    handOffs.map(({ counts }) => counts?.['hand-offs']),
    // As many as asked for, or one more, so that each process has as many.
    [2, 6],
  )
})

test('redlock: all figures, also with one server frozen', async () => {
  const figures = await measureRedlock(tiny)
  assertMeasured(figures)
  assert.equal(figures.length, 3)
  assert.ok(figures.every(({ counts }) => counts?.['stuck'] === undefined || counts['stuck'] === 0))
})

test('mysql: all figures, and the statements are counted', async () => {
  const figures = await measureMysql(tiny)
  assertMeasured(figures)
  assert.equal(figures.length, 5)
  assert.equal(figures[0]?.counts?.['statements each'], 2)
})

test('zookeeper: all figures, and the others beside ours', async () => {
  const results = await measureZookeeper(tiny)
  const figures = results.filter((one) => 'ours' in one)
  assertMeasured(figures)
  assert.equal(figures.length, 3)
  const [once, comparison] = results.filter((one) => 'rows' in one)
  assertPassed(once)
  assert.deepEqual(
    comparison?.rows.map(({ library, values }) => [library.split(' ')[0], (values[0]?.median ?? 0) > 0]),
    [
      ['holdfast', true],
      ['Curator', true],
      ['kazoo', true],
    ],
  )
})

test('etcd and Consul: a lock beside a bare client that does the same writes', async () => {
  for (const [measure, count] of [
    [measureEtcd, 4],
    [measureConsul, 2],
  ] as const) {
    const results = await measure(tiny)
    const figures = results.filter((result) => !('columns' in result))
    assertMeasured(figures)
    assert.equal(figures.length, count)
    const [passed, compared, ...more] = results.filter((result) => 'columns' in result)
    assert.deepEqual(more, [])
    assertPassed(passed)
    for (const { library, values } of compared?.rows ?? []) assert.ok((values[0]?.median ?? 0) > 0, library)
    assert.ok((compared?.rows.length ?? 0) >= 2)
  }
})
