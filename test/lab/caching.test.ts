// What the lab counts of locks that stay with their process (`linger`), what it counts apart because of them, and nothing else.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createHistory, type Event } from 'holdfast/verify'
import { chance } from '../../lab/faults/chance.js'
import { randomLinger, someLinger } from '../../lab/faults/take.js'
import { evaluateRun, type Verdict } from '../../lab/faults/verdict.js'
import { leakCheck } from '../support/leaks.js'
import { event, held } from '../verify/bugs.js'

const ttl = 500

function judge(events: readonly Event[], lingers = true): Verdict {
  const history = createHistory([...events].sort((a, b) => a.t - b.t))
  const store = { settles: 10_000, check: { falseBusy: { lag: 100 } }, ttl, lingers }
  return evaluateRun(history, [], store, [])
}

/** What a worker notes beside an acquisition: which of them it is, its token says. */
function note(at: number, client: string, token: number, kind: string, value?: number): Event {
  const { attempt: _, ...rest } = event(at, client, '', {
    ...{ op: 'acquire', phase: 'info', kind, token },
    ...(value !== undefined && { value }),
  })
  return rest
}
const lingers = (at: number, client: string, token: number, ms: number) =>
  note(at, client, token, 'lingers', ms)
const handedOver = (at: number, client: string, token: number) => note(at, client, token, 'handed over')

/** Token 1 until 10 ms, and cached for 50 ms more. */
const cached = [...held('a', 'a:1', [0, 1, 10], { token: 1 }), lingers(1, 'a', 1, 50)]

test('without linger there is nothing to count', () => {
  assert.equal(judge(held('a', 'a:1', [0, 1, 10], { token: 1 }), false).caching, undefined)
  const { caching } = judge(held('a', 'a:1', [0, 1, 10], { token: 1 }))
  assert.deepEqual(caching, { lingering: 0, reused: 0, gaveWay: 0 })
})

test('a grant without a request is a reuse if it was requested after the release, otherwise a hand-over', () => {
  const next = (asked: number) => [
    ...cached,
    ...held('a', 'a:2', [asked, 20, 30], { token: 2 }),
    handedOver(20, 'a', 2),
  ]
  assert.deepEqual(judge(next(19)).caching, { lingering: 1, reused: 1, gaveWay: 0 })
  assert.deepEqual(judge(next(5)).caching, { lingering: 1, reused: 0, gaveWay: 0 })
  const asked = [...cached, ...held('a', 'a:2', [19, 20, 30], { token: 2 })]
  assert.deepEqual(judge(asked).caching, { lingering: 1, reused: 0, gaveWay: 0 })
})

test('another process that has it sooner than the first would have lost it was given it', () => {
  const other = (at: number) => [...cached, ...held('b', 'b:1', [at - 1, at, at + 9], { token: 5 })]
  assert.deepEqual(judge(other(40)).caching, { lingering: 1, reused: 0, gaveWay: 1 })
  assert.deepEqual(judge(other(70)).caching, { lingering: 1, reused: 0, gaveWay: 0 })
})

/** A try from `from` to `to` that is told that it is not free. */
const refused = (from: number, to: number) => [
  event(from, 'b', 'b:1', { op: 'acquire', phase: 'invoke', mode: 'exclusive', wait: 0 }),
  event(to, 'b', 'b:1', { op: 'acquire', phase: 'fail', kind: 'busy' }),
]
const rules = ({ violations, excused }: Verdict) => [
  ...violations.map(({ rule }) => rule),
  ...excused.map(({ violation, fault }) => `${violation.rule} after ${fault}`),
]

test('a try that a cache refused is counted apart if it queued, and while a store may keep the lock', () => {
  const apart = ['false-busy after linger']
  assert.deepEqual(rules(judge([...cached, ...refused(30, 40)])), apart)
  assert.deepEqual(rules(judge([...cached, ...refused(30, 39)])), ['false-busy'], 'told at once')
  assert.deepEqual(rules(judge([...cached, ...refused(1_150, 1_170)])), apart, 'a frozen process')
  assert.deepEqual(rules(judge([...cached, ...refused(1_170, 1_190)])), ['false-busy'], 'nobody renews it')
  const given = held('a', 'a:1', [0, 1, 10], { token: 1 })
  assert.deepEqual(rules(judge([...given, ...refused(30, 40)])), ['false-busy'], 'not cached')
})

test('a cache explains nothing once the lock was granted again, and readers and permits are never cached', () => {
  const next = held('c', 'c:1', [11, 12, 14], { token: 3 })
  assert.deepEqual(rules(judge([...cached, ...next, ...refused(30, 40)])), ['false-busy'])
  const apart = ['false-busy after linger']
  const during = held('c', 'c:1', [31, 32, 33], { token: 3 })
  assert.deepEqual(rules(judge([...cached, ...during, ...refused(34, 44)])), ['false-busy'])
  const after = held('c', 'c:1', [42, 43, 44], { token: 3 })
  assert.deepEqual(rules(judge([...cached, ...after, ...refused(30, 40)])), apart)
  for (const mode of ['shared', 'permits'] as const) {
    const [first, ...rest] = held('a', 'a:1', [0, 1, 10], { token: 1 })
    assert.ok(first !== undefined)
    const left = [{ ...first, mode }, ...rest, lingers(1, 'a', 1, 50)]
    assert.deepEqual(rules(judge([...left, ...refused(30, 40)])), ['false-busy'], mode)
  }
})

test('a try beside one that a cache refused is counted apart, since that one queued', () => {
  const beside = (from: number, to: number) => [
    event(from, 'c', 'c:1', { op: 'acquire', phase: 'invoke', mode: 'shared', wait: 0 }),
    event(to, 'c', 'c:1', { op: 'acquire', phase: 'fail', kind: 'busy' }),
  ]
  const apart = 'false-busy after linger'
  const all = (...more: readonly Event[]) => rules(judge([...cached, ...more]))
  assert.deepEqual(all(...refused(30, 40), ...beside(32, 34)), [apart, apart])
  assert.deepEqual(all(...refused(30, 40), ...beside(42, 44)), ['false-busy', apart], 'after it')
  assert.deepEqual(
    all(...refused(30, 39), ...beside(32, 34)),
    ['false-busy', 'false-busy'],
    'it did not queue',
  )
})

test('a token that a reuse brings back is counted apart if an operator had taken the cached lock', () => {
  /** The deadline says that the store granted it before the operator took it. */
  const used = held('a', 'a:2', [19, 20, 30], { token: 2, until: 501 }).map((one) =>
    one.token === undefined ? one : { ...one, ttl },
  )
  const forced = ['invoke', 'ok'].map((phase, i) =>
    event(12 + i, 'o', '', { op: 'force', phase: phase as Event['phase'] }),
  )
  const back = (...more: readonly Event[]) =>
    rules(judge([...cached, ...held('b', 'b:1', [14, 15, 16], { token: 9 }), ...used, ...more]))
  assert.deepEqual(back(handedOver(20, 'a', 2)), ['tokens'])
  assert.deepEqual(back(...forced), ['tokens'], 'it was granted by the store')
  assert.deepEqual(back(...forced, handedOver(20, 'a', 2)), ['tokens after linger'])
})

test('the seed decides what lingers and for how long: about half of the takes, shorter and longer than a ttl', () => {
  const draw = (seed: number) => {
    const random = chance(seed)
    return Array.from({ length: 1_000 }, () => randomLinger(random, ttl))
  }
  assert.deepEqual(draw(7), draw(7))
  assert.notDeepEqual(draw(7), draw(8))
  const some = draw(7).filter((ms) => ms > 0)
  assert.ok(some.length > 400 && some.length < 600, `${some.length}`)
  assert.ok(some.some((ms) => ms < ttl / 10) && some.some((ms) => ms > ttl))
  assert.ok(someLinger(chance(7), ttl) > 0)
})

after(leakCheck)
