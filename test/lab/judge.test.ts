// What the lab counts apart, and that it counts nothing else apart.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createHistory, type Event, type Rule } from 'holdfast/verify'
import type { Fault } from '../../lab/faults/store.js'
import { evaluateRun } from '../../lab/faults/verdict.js'
import { leakCheck } from '../support/leaks.js'
import { event, held } from '../verify/bugs.js'

const begin = () => undefined
const subjects = ['server 0']
const excuses = { rules: ['tokens'] as Rule[], within: 100, why: 'both were done' }
const quarantine = { rules: ['false-busy'] as Rule[], why: 'nothing is granted now' }
const faults: Fault[] = [
  {
    kind: 'clock back',
    subjects,
    excuses: [
      { ...excuses, beside: ['flush', 'power cut'] },
      { ...quarantine, within: 300, beside: ['restart'] },
    ],
    begin,
  },
  { kind: 'flush', subjects, begin },
  { kind: 'restart', subjects, excuses: [{ ...quarantine, within: 50 }], begin },
  { kind: 'power cut', subjects, begin },
]

const done = (kind: string, from: number, to = from + 1): Event[] => [
  event(from, 'nemesis', `${kind} ${from}`, { op: 'fault', phase: 'invoke', kind }),
  event(to, 'nemesis', `${kind} ${from}`, { op: 'fault', phase: 'ok', kind }),
]
/** Token 6 is granted after token 7, at 500 ms. */
const goesBack = [
  ...held('a', 'a:1', [0, 1, 2], { token: 7 }),
  ...held('b', 'b:1', [499, 500, 501], { token: 6 }),
]

function judged(...events: readonly Event[]): { violations: string[]; excused: string[] } {
  const history = createHistory([...goesBack, ...events].sort((a, b) => a.t - b.t))
  const { violations, excused } = evaluateRun(history, faults, { settles: 10_000, check: {}, ttl: 500 }, [])
  return {
    violations: violations.map(({ rule }) => rule),
    excused: excused.map(({ violation, fault }) => `${violation.rule} after ${fault}`),
  }
}

const apart = { violations: [], excused: ['tokens after clock back'] }
const counted = { violations: ['tokens'], excused: [] }

test('tokens that go back are counted apart where a clock was set back and data were lost, in either order', () => {
  assert.deepEqual(judged(...done('clock back', 420), ...done('flush', 450)), apart)
  assert.deepEqual(judged(...done('power cut', 400), ...done('clock back', 450)), apart)
  assert.deepEqual(judged(...done('flush', 300, 360), ...done('clock back', 450)), apart)
})

test('they are violations where only one of the two was done, or neither', () => {
  assert.deepEqual(judged(), counted)
  assert.deepEqual(judged(...done('clock back', 450)), counted)
  assert.deepEqual(judged(...done('flush', 450), ...done('power cut', 460)), counted)
})

test('they are violations where the two were far apart, the clock has caught up, or one came afterwards', () => {
  assert.deepEqual(judged(...done('flush', 300), ...done('clock back', 450)), counted)
  assert.deepEqual(judged(...done('clock back', 390), ...done('flush', 450)), counted)
  assert.deepEqual(judged(...done('clock back', 450), ...done('flush', 510)), counted)
  assert.deepEqual(judged(...done('flush', 450), ...done('clock back', 510)), counted)
})

test('no other rule is excused by them', () => {
  const both = held('c', 'c:1', [498, 499, 520], { token: 8 })
  const { violations } = judged(...both, ...done('clock back', 420), ...done('flush', 450))
  assert.ok(violations.includes('exclusion'), `${violations}`)
})

test('each excuse of a fault is for its own rules, for its own time', () => {
  const refused = [
    event(700, 't', 't:1', { op: 'acquire', phase: 'invoke', mode: 'exclusive', name: 'y', wait: 0 }),
    event(701, 't', 't:1', { op: 'acquire', phase: 'fail', kind: 'busy', name: 'y' }),
  ]
  const busy = (...events: readonly Event[]) => {
    const all = judged(...refused, ...events)
    return all.excused.find((one) => one.startsWith('false-busy')) ?? all.violations.includes('false-busy')
  }
  assert.equal(busy(), true)
  assert.equal(busy(...done('restart', 660)), 'false-busy after restart')
  assert.equal(busy(...done('restart', 600)), true)
  assert.equal(busy(...done('clock back', 660)), true)
  assert.equal(busy(...done('restart', 600), ...done('clock back', 660)), 'false-busy after clock back')
})

/** Granted after 7 s, where 5 s are allowed; the events of an own process say for how long it had no processor. */
function late(...starved: readonly [until: number, ms: number, kind?: string][]): {
  violations: string[]
  excused: string[]
} {
  const machine = starved.map(([at, value, kind = 'starved by the machine']) =>
    event(at, 'm', 'm:1', { op: 'fault', phase: 'info', kind, value }),
  )
  const wait = held('a', 'a:1', [1_000, 8_000, 8_001], { token: 7 })
  const history = createHistory([...wait, ...machine].sort((a, b) => a.t - b.t))
  const { violations, excused } = evaluateRun(history, faults, { settles: 5_000, check: {}, ttl: 500 }, [])
  return {
    violations: violations.map(({ rule }) => rule),
    excused: excused.map(({ violation, fault }) => `${violation.rule} after ${fault}`),
  }
}

test('a late wait is counted apart if the machine starved a process during it for as long as it was late', () => {
  const machine = { violations: [], excused: ['liveness after starved by the machine'] }
  const own = { violations: ['liveness'], excused: [] }
  assert.deepEqual(late(), own)
  assert.deepEqual(late([3_500, 1_000], [6_000, 1_100]), machine)
  assert.deepEqual(late([3_500, 1_000], [6_000, 1_100, 'no answer of the store']), machine)
  assert.deepEqual(late([3_500, 1_000], [6_000, 900]), own, 'too short')
  assert.deepEqual(late([3_500, 1_500], [3_600, 1_500]), own, 'the same time, of two processes')
  assert.deepEqual(late([900, 800], [3_500, 1_300], [9_500, 900]), own, 'before and after it')
})

/** A fair waiter queued at 10 ms and granted after two that came later, at 1,800 ms. */
function overtaken(...starved: readonly [until: number, ms: number][]): string[] {
  const fair = { fair: true }
  const waiter = held('a', 'a:1', [0, 1_800, 1_801], { token: 9, ...fair })
  const queued = event(10, 'a', 'a:1', { op: 'acquire', phase: 'info' })
  const machine = starved.map(([at, value]) =>
    event(at, 'm', 'm:1', { op: 'fault', phase: 'info', kind: 'starved by the machine', value }),
  )
  const later = [
    ...held('b', 'b:1', [1_000, 1_500, 1_550], { token: 7, ...fair }),
    ...held('c', 'c:1', [1_100, 1_600, 1_650], { token: 8, ...fair }),
  ]
  const history = createHistory([...waiter, queued, ...later, ...machine].sort((a, b) => a.t - b.t))
  const check = { fifo: { bound: 0 } }
  const { violations, excused } = evaluateRun(history, faults, { settles: 5_000, check, ttl: 500 }, [])
  return [...violations.map(({ rule }) => rule), ...excused.map(({ fault }) => `excused: ${fault}`)]
}

test('an overtaken fair waiter is counted apart if the machine starved a process for a whole ttl during the wait', () => {
  assert.deepEqual(overtaken(), ['fifo'])
  assert.deepEqual(overtaken([900, 300], [1_700, 200]), ['excused: starved by the machine'])
  assert.deepEqual(overtaken([900, 300], [1_700, 190]), ['fifo'], 'for less than a ttl')
  assert.deepEqual(overtaken([900, 500], [950, 100]), ['excused: starved by the machine'])
  assert.deepEqual(overtaken([2_500, 600]), ['fifo'], 'after the wait')
})

after(leakCheck)
