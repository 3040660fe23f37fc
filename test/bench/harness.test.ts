import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { atLeast, atMost, both, type Figure } from '../../bench/figure.js'
import { markdown, number } from '../../bench/report.js'
import { ratio, takeTurns } from '../../bench/rounds.js'
import { quantile, spread } from '../../bench/spread.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

test('a spread is the middle, the least and the most of its runs', () => {
  assert.deepEqual(spread([5, 1, 9, 3]), { median: 4, min: 1, max: 9, runs: 4 })
  assert.deepEqual(spread([7]), { median: 7, min: 7, max: 7, runs: 1 })
})

test('a quantile lies between the values next to it', () => {
  assert.equal(quantile([10, 20, 30], 0.5), 20)
  assert.equal(quantile([10, 20], 0.99), 19.9)
  assert.ok(Number.isNaN(quantile([], 0.5)))
})

test('works take turns, each with its own count, and the order changes from round to round', async () => {
  const done: string[] = []
  const work = (name: string) => async (n: number) => void done.push(`${name}${n}`)
  const rates = await takeTurns({ a: work('a'), b: work('b') }, { rounds: 3, slice: 1, fixed: 4 })
  assert.deepEqual(done, ['b4', 'a4', 'a4', 'b4', 'b4', 'a4', 'a4', 'b4'])
  assert.equal(rates.a.length, 3, 'the first round is thrown away')
  assert.equal(rates.b.length, 3)
})

test('without a fixed count the count is settled on the length of a slice', async () => {
  const counts: number[] = []
  const slow = async (n: number) => {
    counts.push(n)
    const end = performance.now() + n
    while (performance.now() < end);
  }
  await takeTurns({ slow }, { rounds: 1, slice: 8 })
  // However slow the machine: it doubles until it is a quarter of the slice, and then every round has the same count.
  assert.equal(counts[0], 1)
  assert.equal(counts.at(-1), counts.at(-2))
})

test('a ratio is taken inside each round', () => {
  assert.deepEqual(ratio([10, 30], [5, 10]), { median: 2.5, min: 2, max: 3, runs: 2 })
})

test('an aim says whether it was met', () => {
  assert.deepEqual(atLeast(5, 5, '/s'), { text: '≥ 5 /s', met: true })
  assert.deepEqual(atMost(2.51, 2.5, '×'), { text: '≤ 2.5 ×', met: false })
  assert.deepEqual(both(atLeast(2, 1, ''), atMost(2, 1, 'ms')), { text: '≥ 1; ≤ 1 ms', met: false })
})

test('numbers show three digits that count, and large ones all of theirs', () => {
  assert.deepEqual([1234567.8, 0.01234, 12.345, 3, 100.4].map(number), [
    '1,234,568',
    '0.0123',
    '12.3',
    '3',
    '100',
  ])
})

test('the report has a table for each suite', () => {
  const figure: Figure = {
    suite: 'one',
    what: 'work',
    unit: '/s',
    ours: spread([1, 2, 3]),
    floor: { what: 'bare', value: spread([4]), ratio: spread([0.5]) },
    counts: { messages: 0 },
    aim: { text: '≥ 3', met: false },
    note: 'noted',
  }
  const about = { date: '2026-01-31', runtime: 'Node 20', system: 'Linux', processor: 'x', cores: 2, load: 0 }
  const text = markdown({
    machine: { ...about, versions: { holdfast: '0.1.0' } },
    results: [
      figure,
      { suite: 'two', what: 'other', unit: 'ms', ours: spread([5]) },
      {
        suite: 'two',
        what: 'libraries',
        columns: ['ops/s', 'commands'],
        rows: [{ library: 'one', settings: 'fast', values: [spread([1500]), undefined] }],
      },
    ],
  })
  assert.match(text, /^2026-01-31\. Node 20, holdfast 0\.1\.0\./)
  assert.match(
    text,
    /### one\n\n\| figure .*\n\| --- .*\n\| work \| \/s \| 2 \(1–3\) \| 4 bare \| 0\.5 \| 0 messages \| ≥ 3 \| \*\*no\*\* \|\n\n- work: noted\n/,
  )
  assert.match(text, /### two\n(.*\n)+\| other \| ms \| 5 \| {2}\| {2}\| {2}\| {2}\| {2}\|\n/)
  assert.match(
    text,
    /\*\*libraries\*\*\n\n\| library \| settings \| ops\/s \| commands \|\n.*\n\| one \| fast \| 1,500 \| {2}\|\n$/,
  )
})
