// What the page derives from two samples of a store: tables of samples and the events between them.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Holder, LockStatus, Mode, Waiter } from 'holdfast'
import { type Sample, step } from '../../src/ui/diff.js'
import { begin } from '../../src/ui/model.js'
import { pauseAfter, pauseAfterFailure } from '../../src/ui/pace.js'
import { lasted, percentile, storeOf, visible } from '../../src/ui/stats.js'
import type { Entry } from '../../src/ui/wire.js'
import { leakCheck } from '../support/leaks.js'

const exclusive: Mode = { kind: 'exclusive' }
const start = 1_000_000
const holder = (attempt: string, heldFor: number, expiresIn = 30_000, token = 7): Holder => ({
  attempt,
  mode: exclusive,
  token,
  heldFor,
  expiresIn,
})
const waiter = (attempt: string, waitedFor: number): Waiter => ({ attempt, mode: exclusive, waitedFor })
const standing = (holders: Holder[], waiters: Waiter[] = [], name = 'a'): LockStatus => ({
  name,
  holders,
  waiters,
  lastToken: 7,
})

/** The steps between samples, each a second after the one before. */
function steps(...samples: (readonly LockStatus[])[]) {
  let entries: ReadonlyMap<string, Entry> = new Map()
  return samples.map((standings, i) => {
    const result = step(entries, { at: start + i * 1_000, standings })
    entries = result.entries
    return result
  })
}

describe('a hold', () => {
  test('that stays is no change, although its readings differ by the round trip', () => {
    const [, second] = steps([standing([holder('x', 0)])], [standing([holder('x', 1_100, 28_900)])])
    assert.deepEqual(second?.changed, [])
    assert.deepEqual(second?.past, [])
    assert.equal(second?.entries.get('a')?.holders[0]?.since, start)
  })

  test('that was renewed is a change', () => {
    const [, second] = steps([standing([holder('x', 0)])], [standing([holder('x', 1_000, 30_000)])])
    assert.equal(second?.changed.length, 1)
  })

  test('that is gone has ended when the next one began', () => {
    const [, second] = steps([standing([holder('x', 0)], [waiter('y', 400)])], [standing([holder('y', 300)])])
    const [past] = second?.past ?? []
    assert.deepEqual([past?.end, past?.to, past?.since], ['ended', start + 700, start])
    assert.equal(second?.entries.get('a')?.holders[0]?.waited, 1_100)
  })

  test('that is gone with its name has ended by the time of the sample', () => {
    const [, second] = steps([standing([holder('x', 0)])], [])
    assert.deepEqual(second?.gone, ['a'])
    assert.deepEqual(second?.past[0]?.to, start + 1_000)
  })

  const late: readonly (readonly [what: string, before: Holder, end: string])[] = [
    ['had missed a renewal', holder('x', 29_000, 800), 'lost'],
    ['was overdue', holder('x', 30_100, -100), 'lost'],
    ['had time left', holder('x', 29_000, 20_000), 'ended'],
    ['is bound to a connection', holder('x', 29_000, Number.POSITIVE_INFINITY), 'ended'],
    ['is of a short lease that had just begun', holder('x', 100, 900), 'ended'],
  ]
  for (const [what, before, end] of late)
    test(`that is gone and ${what}: ${end}`, () => {
      const [, second] = steps([standing([before])], [])
      assert.equal(second?.past[0]?.end, end)
    })

  test('that was taken by force here says so, with the reason; only the hold that was meant', () => {
    const forced = new Map([['a', { attempts: ['x'], why: 'stuck' }]])
    const [first] = steps([standing([holder('x', 0), holder('z', 0, 30_000, 8)])])
    const { past } = step(first?.entries ?? new Map(), { at: start + 1_000, standings: [] }, forced)
    assert.deepEqual(
      past.map(({ end, why }) => [end, why]),
      [
        ['forced', 'stuck'],
        ['ended', undefined],
      ],
    )
  })

  test('that ended while nobody looked is shown until it was last seen', () => {
    const [first] = steps([standing([holder('x', 5_000)])])
    const sample: Sample = { at: start + 600_000, standings: [], blind: true }
    const { past } = step(first?.entries ?? new Map(), sample)
    assert.deepEqual([past[0]?.end, past[0]?.to], ['unseen', start])
  })

  test('with a new token under the same attempt is another hold', () => {
    const [, second] = steps(
      [standing([holder('x', 0, 30_000, 7)])],
      [standing([holder('x', 200, 30_000, 8)])],
    )
    assert.deepEqual(
      second?.past.map(({ token }) => token),
      [7],
    )
  })
})

describe('a waiter', () => {
  test('that is gone while the holder stays has given up', () => {
    const [, second] = steps(
      [standing([holder('x', 0)], [waiter('y', 400), waiter('z', 100)])],
      [standing([holder('x', 1_000)], [waiter('z', 1_100)])],
    )
    assert.deepEqual(second?.gaveUp, [{ name: 'a', at: start + 1_000, waited: 1_400 }])
  })

  test('that is gone while the holder changed may have held the lock meanwhile', () => {
    const [, second] = steps(
      [standing([holder('x', 0)], [waiter('y', 400), waiter('z', 100)])],
      [standing([holder('z', 100)])],
    )
    assert.deepEqual(second?.gaveUp, [])
  })

  test('beyond what the store lists does not count as one that gave up', () => {
    const before = standing([holder('x', 0)], [waiter('y', 400)])
    const now = { ...standing([holder('x', 1_000)], [waiter('w', 0)]), unlisted: 5 }
    const [, second] = steps([before], [now])
    assert.deepEqual(second?.gaveUp, [])
    assert.equal(second?.entries.get('a')?.waiting, 6)
  })
})

test('a sample of some names leaves the others unchanged', () => {
  const [first] = steps([standing([holder('x', 0)]), standing([holder('y', 0)], [], 'b')])
  const sample: Sample = { at: start + 500, standings: [standing([])], only: new Set(['a']) }
  const { gone, entries } = step(first?.entries ?? new Map(), sample)
  assert.deepEqual(gone, ['a'])
  assert.deepEqual([...entries.keys()], ['b'])
})

test('the pause after a sample keeps to the budget of commands and to a tenth of the time', () => {
  const pace = { interval: 500, budget: 500 }
  assert.equal(pauseAfter(pace, { commands: 10, took: 5 }), 500)
  assert.equal(pauseAfter(pace, { commands: 5_001, took: 200 }), 9_802)
  assert.equal(pauseAfter(pace, { commands: 1, took: 2_000 }), 18_000)
  assert.deepEqual(
    [1, 2, 5, 20].map((failures) => pauseAfterFailure(pace, failures)),
    [1_000, 2_000, 16_000, 30_000],
  )
})

test('a name that was typed is looked for in the store that has it, else in one that cannot list its names', () => {
  const store = (id: string, names: readonly string[], lists = true) => ({
    ...{ id, driver: 'memory', about: id, lists, examines: false, canRelease: false, canAsk: false },
    ...{ health: { state: 'ok', took: 1, every: 500 } as const, past: [], gaveUp: [], gaps: [] },
    entries: names.map((name) => ({ name, at: 0, holders: [], waiters: [], waiting: 0 })),
  })
  const init = (...stores: ReturnType<typeof store>[]) =>
    begin({ now: 0, key: '', keeps: 1, stores }, 0).stores
  const listing = init(store('a', ['x']), store('b', ['y']))
  assert.equal(storeOf(listing, 'y')?.id, 'b')
  assert.equal(storeOf(listing, 'z')?.id, 'a')
  assert.equal(storeOf(init(store('a', ['x']), store('quorum', [], false)), 'z')?.id, 'quorum')
  assert.equal(storeOf([], 'x'), undefined)
})

test('characters that are not seen are shown by their numbers, so that no name looks like another', () => {
  assert.equal(visible('account:\u200b42'), 'account:\\u{200b}42')
  assert.equal(visible('a\u202eb\u2028c\u0007'), 'a\\u{202e}b\\u{2028}c\\u{7}')
  assert.equal(visible('漢字 ⚡ <b>'), '漢字 ⚡ <b>')
})

test('percentiles and durations', () => {
  const hundred = Array.from({ length: 100 }, (_, i) => i + 1)
  assert.deepEqual(
    [0.5, 0.95, 0.99].map((share) => percentile(hundred, share)),
    [50, 95, 99],
  )
  assert.equal(percentile([], 0.5), undefined)
  const texts: readonly (readonly [ms: number, text: string])[] = [
    [340, '340 ms'],
    [3_240, '3.2 s'],
    [59_900, '59 s'],
    [300_000, '5 min'],
    [125_000, '2 min 5 s'],
    [11_040_000, '3 h 4 min'],
    [183_600_000, '2 d 3 h'],
    [-5, '0 ms'],
  ]
  for (const [ms, text] of texts) assert.equal(lasted(ms), text)
})

after(leakCheck)
