// Which tokens may go back once a server's clock was set back, and that no others may.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createHistory, type Event } from 'holdfast/verify'
import { findLostTokens } from '../../lab/faults/lost-tokens.js'
import type { Fault } from '../../lab/faults/store.js'
import { evaluateRun } from '../../lab/faults/verdict.js'
import { leakCheck } from '../support/leaks.js'
import { event, held } from '../verify/bugs.js'

const ttl = 100
const subjects = ['server 0']
const begin = () => undefined
const why = 'both were done'
const explains = (history: Parameters<typeof findLostTokens>[0]) => findLostTokens(history, ['flush'], ttl)
const faults: Fault[] = [
  { kind: 'clock back', subjects, excuses: [{ rules: ['tokens'], within: 10_000, explains, why }], begin },
  { kind: 'flush', subjects, begin },
]

/** The true time of the history's beginning, and by how much the clock is set back, in ms. */
const began = 1_800_000_000_000
const jump = 3_000

const done = (kind: string, at: number): Event[] => [
  event(at, 'nemesis', `${kind} ${at}`, { op: 'fault', phase: 'invoke', kind }),
  event(at + 1, 'nemesis', `${kind} ${at}`, { op: 'fault', phase: 'ok', kind }),
]
function back(at: number): Event[] {
  const reading = (t: number, value: number): Event => {
    const {
      name: _,
      attempt: __,
      ...rest
    } = event(t, 'nemesis', '', {
      ...{ op: 'fault', phase: 'info', kind: 'clock of the server', value },
    })
    return rest
  }
  return [...done('clock back', at), reading(at + 0.4, began + at), reading(at + 0.5, began + at - jump)]
}

/** What a clock shows at that time, in µs, if it was set back or not. */
const right = (at: number) => (began + at) * 1_000
const late = (at: number) => right(at) - jump * 1_000
const took = (client: string, at: number, token: number) =>
  held(client, `${client}:${at}`, [at - 1, at, at + 1], { token })
const handedOver = (client: string, at: number, token: number): Event[] => {
  const { attempt: _, ...note } = event(at, client, '', {
    ...{ op: 'acquire', phase: 'info', kind: 'handed over', token },
  })
  return [note, ...took(client, at, token)]
}

function judged(...events: readonly (readonly Event[])[]): { violated: number; apart: number } {
  const history = createHistory(events.flat())
  const { violations, excused } = evaluateRun(history, faults, { settles: 10_000, check: {}, ttl }, [])
  const other = [...violations, ...excused.map(({ violation }) => violation)].filter(
    ({ rule }) => rule !== 'tokens',
  )
  assert.deepEqual(other, [])
  return { violated: violations.length, apart: excused.length }
}

const counted = { violated: 1, apart: 0 }
const excused = { violated: 0, apart: 1 }
const before = took('a', 100, right(100))

test('a token goes back to the clock after data were lost and the clock was set back, in either order', () => {
  assert.deepEqual(judged(before, done('flush', 200), back(300), took('b', 900, late(900))), excused)
  assert.deepEqual(judged(before, back(200), done('flush', 300), took('b', 900, late(900))), excused)
})

test('it may not where nothing was lost between the two', () => {
  assert.deepEqual(
    judged(done('flush', 10), took('a', 400, right(400)), back(500), took('b', 900, late(900))),
    counted,
  )
  assert.deepEqual(judged(before, back(200), took('b', 300, late(300)), done('flush', 400)), counted)
  assert.deepEqual(judged(before, back(200), took('b', 300, late(300))), counted)
})

test('it may not go back further than the clock', () => {
  const lost = [before, back(200), done('flush', 300)]
  assert.deepEqual(judged(...lost, took('b', 900, late(900) - 40_000)), excused)
  assert.deepEqual(judged(...lost, took('b', 900, late(600))), counted)
  assert.deepEqual(judged(...lost, took('b', 900, 1)), counted)
})

test('it may not once the clock is where it was', () => {
  const lost = [before, back(200), done('flush', 300)]
  assert.deepEqual(judged(...lost, took('b', 3_600, right(100) - 1)), counted)
})

test('those that were granted since the loss grow', () => {
  const lost = [before, back(200), done('flush', 300), took('b', 900, late(990))]
  assert.deepEqual(judged(...lost, took('c', 950, late(991))), { violated: 0, apart: 2 })
  assert.deepEqual(judged(...lost, took('c', 950, late(989))), { violated: 1, apart: 1 })
})

test('one that was handed over was granted when its process got the lock', () => {
  const lost = [before, back(200), took('b', 310, right(101)), done('flush', 320)]
  const next = handedOver('b', 340, right(101) + 1)
  assert.deepEqual(judged(...lost, next, took('c', 900, late(900))), excused, 'before the loss')
  const asked = took('b', 900, late(900))
  const more = handedOver('b', 980, late(900) + 1)
  assert.deepEqual(judged(before, back(200), done('flush', 300), asked, more), { violated: 0, apart: 2 })
})

test('the same token twice is counted apart like a smaller one', () => {
  assert.deepEqual(judged(before, back(200), done('flush', 300), took('b', 900, right(100))), excused)
  assert.deepEqual(judged(before, back(200), took('b', 900, right(100))), counted)
})

test('a token that changes while the lock is held has no excuse', () => {
  const changed = took('b', 900, late(900)).map((one) =>
    one.op === 'release' ? { ...one, token: late(901) } : one,
  )
  assert.deepEqual(judged(before, back(200), done('flush', 300), changed), { violated: 1, apart: 1 })
})

after(leakCheck)
