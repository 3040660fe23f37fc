import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, fifo } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { edit, event, held, hunt, pick } from '../bugs.js'

const fair = (token: number) => ({ token, fair: true })
const queued = (at: number, client: string) =>
  event(at, client, `${client}:1`, { op: 'acquire', phase: 'info' })

describe('the first come, first served checker', () => {
  const overtaken = [
    ...held('w', 'w:1', [0, 20, 21], fair(3)),
    queued(1, 'w'),
    ...held('x', 'x:1', [2, 5, 6], fair(1)),
    ...held('y', 'y:1', [3, 7, 8], fair(2)),
  ]

  it('counts later requests that were served earlier', () => {
    const [found] = fifo(createHistory(overtaken))
    assert.match(found?.message ?? '', /2 that came later were served before a waiter; 0 may be/)
    assert.deepEqual(fifo(createHistory(overtaken), { bound: 2 }), [])
  })

  describe('permits that were served before the waiter', () => {
    const take = (permits: number, token: number) => ({
      ...{ ...fair(token), mode: 'permits' as const },
      ...{ permits, of: 3 },
    })
    const beside = [
      ...held('w', 'w:1', [0, 6, 21], take(1, 3)),
      queued(1, 'w'),
      ...held('x', 'x:1', [2, 5, 20], take(1, 2)),
    ]
    const found = (permits: number, released: number) =>
      fifo(createHistory([...beside, ...held('z', 'z:1', [0, 0.5, released], take(permits, 1))])).length

    it('do not count if there were enough for both', () => {
      assert.deepEqual(fifo(createHistory(beside)), [])
      assert.equal(found(1, 30), 0, 'nothing ended')
      assert.equal(found(1, 5.5), 0, 'nor did they need what ended')
      assert.equal(found(2, 1), 0, 'z had ended when x was called')
      assert.equal(found(3, 1.95), 0, 'z was released just before x was called, and told so just after it')
      assert.equal(found(2, 4), 0, 'z may have ended before x was served')
    })

    it('count if they took the room of the waiter', () => {
      assert.equal(found(2, 5.5), 1)
    })

    it('count if they had ended, too, when the waiter was served', () => {
      const one = (token: number) => ({ ...take(1, token), of: 1 })
      const passing = [
        ...held('w', 'w:1', [0, 20, 21], one(2)),
        queued(1, 'w'),
        ...held('x', 'x:1', [2, 5, 6], one(1)),
      ]
      assert.equal(fifo(createHistory(passing)).length, 1)
    })
  })

  it('does not count a reader that fitted beside another, but one for which it waited for a writer', () => {
    const reads = (token: number) => ({ ...fair(token), mode: 'shared' as const })
    const readers = [
      ...held('w', 'w:1', [0, 20, 21], reads(4)),
      queued(1, 'w'),
      ...held('x', 'x:1', [2, 5, 6], reads(2)),
      ...held('u', 'u:1', [0, 0.5, 1.95], fair(1)),
    ]
    assert.deepEqual(fifo(createHistory(readers)), [])
    assert.deepEqual(fifo(createHistory([...readers, ...held('y', 'y:1', [0, 5, 7], reads(3))])), [])
    assert.equal(fifo(createHistory([...readers, ...held('v', 'v:1', [0, 8, 15], fair(3))])).length, 1)
  })

  it('follows the order of grants, not of the clients’ notifications', () => {
    const slow = [
      ...held('w', 'w:1', [0, 20, 21], fair(1)),
      queued(1, 'w'),
      ...held('x', 'x:1', [2, 5, 6], fair(2)),
    ]
    assert.deepEqual(fifo(createHistory(slow)), [])
  })

  it('does not count calls made before the waiter was known to be queued', () => {
    const early = overtaken.filter((one) => one.phase !== 'info')
    assert.deepEqual(fifo(createHistory(early)), [])
    assert.equal(fifo(createHistory(early), { settle: 1 }).length, 1)
  })

  it('also counts for a waiter that gave up', () => {
    const gaveUp = overtaken.filter((one) => one.client !== 'w' || one.phase === 'info')
    const [invoke] = held('w', 'w:1', [0, 20, 21], fair(3))
    const failed = event(20, 'w', 'w:1', { op: 'acquire', phase: 'fail', kind: 'ACQUIRE_TIMEOUT' })
    assert.match(fifo(createHistory([...gaveUp, invoke!, failed]))[0]?.message ?? '', /2 that came later/)
  })

  it('counts nobody who was served after the waiter’s deadline, however late that was noticed', () => {
    const of = (wait: number) => {
      const invoke = event(0, 'w', 'w:1', { op: 'acquire', phase: 'invoke', fair: true, wait })
      const failed = event(20, 'w', 'w:1', { op: 'acquire', phase: 'fail', kind: 'ACQUIRE_TIMEOUT' })
      return createHistory([
        ...overtaken.filter((one) => one.client !== 'w' || one.phase === 'info'),
        invoke,
        failed,
      ])
    }
    assert.match(fifo(of(6))[0]?.message ?? '', /1 that came later/)
    assert.deepEqual(fifo(of(4)), [])
  })

  it('counts nobody who was admitted beside a reader that gave up just before it learned of its own grant', () => {
    const of = (mode: 'shared' | 'exclusive') =>
      createHistory(
        [
          ...overtaken.filter((one) => one.client !== 'w' || one.phase === 'info'),
          event(0, 'w', 'w:1', { op: 'acquire', phase: 'invoke', fair: true, mode }),
          event(20, 'w', 'w:1', { op: 'acquire', phase: 'fail', kind: 'ACQUIRE_TIMEOUT' }),
        ].map((one) => (one.client !== 'w' && one.phase === 'invoke' ? { ...one, mode } : one)),
      )
    assert.deepEqual(fifo(of('shared')), [])
    assert.match(fifo(of('shared'), { inFlight: 1 })[0]?.message ?? '', /2 that came later/)
    // It would have had to leave before anybody else was let in.
    assert.match(fifo(of('exclusive'))[0]?.message ?? '', /2 that came later/)
  })

  it('lets those who did not ask for it pass a fair waiter, up to a bound for all', () => {
    const mixed = createHistory(overtaken.map((one) => (one.client === 'w' ? one : { ...one, fair: false })))
    assert.deepEqual(fifo(mixed), [])
    assert.equal(fifo(mixed, { unfairBound: 1 }).length, 1)
  })

  it('judges the others by a bound of their own', () => {
    const unfair = overtaken.map(({ fair: _, ...one }) => one)
    assert.deepEqual(fifo(createHistory(unfair)), [])
    assert.equal(fifo(createHistory(unfair), { unfairBound: 1 }).length, 1)
  })

  it('is lenient with a waiter to whom something was done, as far as it is told to be', () => {
    const pause = event(4, 'nemesis', 'pause', {
      op: 'fault',
      phase: 'invoke',
      kind: 'pause',
      target: overtaken[0]!.pid,
    })
    const history = createHistory([...overtaken, pause])
    assert.deepEqual(fifo(history), [])
    assert.equal(fifo(history, { perFault: 1 }).length, 1)
    assert.deepEqual(fifo(history, { perFault: 2 }), [])
    const elsewhere = createHistory([...overtaken, { ...pause, target: 1 }])
    assert.equal(fifo(elsewhere).length, 1)
  })

  it('catches somebody let in ahead of the queue in any random history', () => {
    hunt({
      check: (history) => fifo(history, { perFault: 0 }),
      rule: 'fifo',
      simulation: { names: ['a'], clients: 6 },
      bug: (history, random) => {
        const cases = history.acquisitions.flatMap((w) => {
          if (w.queued === undefined || w.token === undefined) return []
          const before = history.acquisitions.filter(
            (x) => x.token !== undefined && x.token < w.token! && x.granted! > w.queued! + 2,
          )
          return before.map((x) => ({ w, x }))
        })
        const chosen = pick(cases, random)
        if (chosen === undefined) return undefined
        const { w, x } = chosen
        return edit(history, x.attempt, (event) => {
          if (event.op !== 'acquire' || event.phase === 'ok') return event
          return { ...event, t: w.queued! + 1 }
        })
      },
    })
  })
})

after(leakCheck)
