import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, type Event, falseBusy } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { edit, event, held, hunt, pick } from '../bugs.js'

const attempt = (at: number, facts: Partial<Event> = {}): Event[] => [
  event(at, 't', `t:${at}`, { op: 'acquire', phase: 'invoke', mode: 'exclusive', wait: 0, ...facts }),
  event(at + 1, 't', `t:${at}`, { op: 'acquire', phase: 'fail', kind: 'busy' }),
]
/** A release that is not asked of the store, because the lease has run out by its own clock. */
const foundLost = (at: number): Event[] => [
  event(at, 'a', 'a:1', { op: 'lost', phase: 'info' }),
  event(at, 'a', 'a:1', { op: 'release', phase: 'invoke' }),
  event(at, 'a', 'a:1', { op: 'release', phase: 'ok', kind: 'lost' }),
]
const lag = 5

describe('the false busy checker', () => {
  it('sees a try refused while nobody had the lock', () => {
    const found = falseBusy(createHistory([...held('a', 'a:1', [0, 1, 10]), ...attempt(20)]), { lag })
    assert.match(found[0]?.message ?? '', /nobody had it or wanted it/)
  })

  it('accepts a holder, a call on its way, a release not yet answered and the remainder of a lease as reasons', () => {
    const reasons = [
      held('a', 'a:1', [0, 1, 30]),
      held('a', 'a:1', [20.5, 40, 41]),
      held('a', 'a:1', [0, 1, 19.95]),
      held('a', 'a:1', [0, 1, 30], { until: 16 }).slice(0, 2),
      [...held('a', 'a:1', [0, 1, 30], { until: 16 }).slice(0, 2), ...foundLost(17)],
    ]
    for (const reason of reasons)
      assert.deepEqual(falseBusy(createHistory([...reason, ...attempt(20)]), { lag }), [])
    const over = held('a', 'a:1', [0, 1, 30], { until: 14 }).slice(0, 2)
    assert.equal(falseBusy(createHistory([...over, ...attempt(20)]), { lag }).length, 1)
  })

  it('does not let two refused tries excuse each other', () => {
    const other = attempt(20.5).map((one) => ({ ...one, attempt: 'other' }))
    assert.equal(falseBusy(createHistory([...attempt(20), ...other]), { lag }).length, 2)
  })

  it('does not let readers excuse the refusal of a reader', () => {
    const reader = held('a', 'a:1', [0, 1, 30], { mode: 'shared' })
    assert.equal(falseBusy(createHistory([...reader, ...attempt(20, { mode: 'shared' })]), { lag }).length, 1)
    assert.deepEqual(falseBusy(createHistory([...reader, ...attempt(20)]), { lag }), [])
  })

  it('adds permits up', () => {
    const take = (permits: number) => ({ mode: 'permits', permits, of: 3 }) as const
    const holder = held('a', 'a:1', [0, 1, 30], take(2))
    assert.equal(falseBusy(createHistory([...holder, ...attempt(20, take(1))]), { lag }).length, 1)
    assert.deepEqual(falseBusy(createHistory([...holder, ...attempt(20, take(2))]), { lag }), [])
  })

  it('catches a try refused at the quiet end of any random history', () => {
    hunt({
      check: (history) => falseBusy(history, { lag: 40 }),
      rule: 'false-busy',
      bug: (history, random) => {
        const busy = pick(
          history.acquisitions.filter((one) => one.events.at(-1)?.kind === 'busy' && one.died === undefined),
          random,
        )
        return busy && edit(history, busy.attempt, (event) => ({ ...event, t: event.t + history.end + 1e9 }))
      },
    })
  })
})

after(leakCheck)
