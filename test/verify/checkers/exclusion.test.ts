import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, type Event, exclusion, printViolation } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { event, held, hunt, neighbours, pick, prolong } from '../bugs.js'

describe('the exclusion checker', () => {
  it('sees two holders at once and tells both stories', () => {
    const events = [
      ...held('a', 'a:1', [0, 1, 10], { token: 1 }),
      ...held('b', 'b:1', [2, 8, 20], { token: 2 }),
    ]
    const [found, ...more] = exclusion(createHistory(events))
    assert.equal(more.length, 0)
    assert.equal(found?.at, 8e6)
    assert.equal(found?.lasted, 2e6)
    assert.deepEqual(
      found?.parties.map((party) => party.attempt),
      ['a:1', 'b:1'],
    )
    const text = printViolation(found!)
    assert.match(text, /"x" was held twice at once for 2\.000 ms: tokens 1 and 2/)
    assert.match(
      text,
      /acquisition a:1[\s\S]*release invoke[\s\S]*acquisition b:1[\s\S]*\+0\.000 ms {2}acquire ok "x" token 2/,
    )
  })

  it('has nothing against holders who follow each other, nor against other names and modes', () => {
    const events = [
      ...held('a', 'a:1', [0, 1, 8]),
      ...held('b', 'b:1', [2, 8, 20]),
      ...held('c', 'c:1', [2, 9, 20], { name: 'y' }),
      ...held('d', 'd:1', [30, 31, 40], { mode: 'shared' }),
      ...held('e', 'e:1', [30, 32, 40], { mode: 'shared' }),
    ]
    assert.deepEqual(exclusion(createHistory(events)), [])
  })

  it('ends a claim at its last deadline, even if the holder is paused and records nothing', () => {
    const paused = held('a', 'a:1', [0, 1, 100], { until: 50 })
    assert.deepEqual(exclusion(createHistory([...paused, ...held('b', 'b:1', [2, 50, 60])])), [])
    assert.equal(exclusion(createHistory([...paused, ...held('b', 'b:1', [2, 49, 60])])).length, 1)
    const renewed = event(40, 'a', 'a:1', { op: 'renew', phase: 'ok', until: 70e6 })
    assert.equal(exclusion(createHistory([...paused, renewed, ...held('b', 'b:1', [2, 60, 65])])).length, 1)
  })

  it('ends a claim at the shorter deadline that its holder asked for, from the call on', () => {
    const holder = held('a', 'a:1', [0, 1, 100], { until: 90 })
    const shorter = event(20, 'a', 'a:1', { op: 'renew', phase: 'invoke', until: 30e6 })
    const next = held('b', 'b:1', [2, 40, 60])
    assert.deepEqual(exclusion(createHistory([...holder, shorter, ...next])), [])
    // A holder that keeps relying on the longer one.
    const stays = event(21, 'a', 'a:1', { op: 'renew', phase: 'ok', until: 90e6 })
    assert.equal(exclusion(createHistory([...holder, shorter, stays, ...next])).length, 1)
  })

  it('ends claims when an operator takes the lock, and only those of that moment', () => {
    const holder = held('a', 'a:1', [0, 1, 100], { until: 90 })
    const force = (phase: 'invoke' | 'ok' | 'info', t: number) => {
      const { attempt: _, ...rest } = event(t, 'o', '', { op: 'force', phase })
      return rest
    }
    const next = held('b', 'b:1', [2, 40, 60])
    const third = held('c', 'c:1', [2, 50, 60])
    const answered = [force('invoke', 30), force('ok', 35)]
    assert.deepEqual(exclusion(createHistory([...holder, ...answered, ...next])), [])
    assert.equal(exclusion(createHistory([...holder, ...answered, ...next, ...third])).length, 1)
    // It was granted before the operator asked, and another one as well.
    assert.equal(
      exclusion(createHistory([...holder, force('invoke', 45), force('ok', 46), ...next])).length,
      1,
    )
    // Nobody knows when it was carried out.
    assert.deepEqual(
      exclusion(createHistory([...holder, force('invoke', 30), force('info', 31), ...next])),
      [],
    )
  })

  it('ends the claim of a grant whose reply was still unread when the operator took the lock', () => {
    const [invoke, ok] = held('a', 'a:1', [25, 50, 90], { until: 95 })
    const force = (phase: 'invoke' | 'ok', t: number, client = 'o') => {
      const { attempt: _, ...rest } = event(t, client, '', { op: 'force', phase })
      return rest
    }
    const forced = [force('invoke', 30), force('ok', 35)]
    const next = held('b', 'b:1', [40, 60, 80])
    const judge = (events: readonly Event[]) => exclusion(createHistory(events)).length
    // A term of 65 ms that ends at 95 was requested at 30: the store may have granted it before it carried the force out.
    assert.equal(judge([invoke!, { ...ok!, ttl: 65 }, ...forced, ...next]), 0)
    // This one was requested at 36, when the operator had the reply.
    assert.equal(judge([invoke!, { ...ok!, ttl: 59 }, ...forced, ...next]), 1)
    // Without a term nothing is known but when it was granted.
    assert.equal(judge([invoke!, ok!, ...forced, ...next]), 1)
  })

  it('lets a force without an end take nothing that was granted long after its client fell silent', () => {
    const { attempt: _, ...force } = event(30, 'o', '', { op: 'force', phase: 'invoke' })
    const pair = (at: number) => [
      ...held('a', 'a:1', [at, at + 10, at + 90], { until: at + 95 }),
      ...held('b', 'b:1', [at, at + 20, at + 80]),
    ]
    assert.equal(exclusion(createHistory([force, ...pair(9_000)])).length, 0)
    assert.equal(exclusion(createHistory([force, ...pair(11_000)])).length, 1)
  })

  it('ends a claim when its process is killed, but not before its last word', () => {
    const [invoke, ok] = held('a', 'a:1', [0, 1, 100], { until: 1000 })
    const kill = event(10, 'nemesis', 'kill', {
      op: 'fault',
      phase: 'invoke',
      kind: 'kill',
      target: invoke!.pid,
    })
    const after = held('b', 'b:1', [2, 12, 60])
    assert.deepEqual(exclusion(createHistory([invoke!, ok!, kill, ...after])), [])
    const word = event(13, 'a', 'a:1', { op: 'renew', phase: 'ok' })
    assert.equal(exclusion(createHistory([invoke!, ok!, kill, word, ...after])).length, 1)
    const paused = { ...kill, kind: 'pause' }
    assert.equal(exclusion(createHistory([invoke!, ok!, paused, ...after])).length, 1)
  })

  it('sees an overlap with a hold that began long before, not only with the last one', () => {
    const events = [
      ...held('a', 'a:1', [0, 1, 100]),
      ...held('b', 'b:1', [2, 10, 20]),
      ...held('c', 'c:1', [2, 30, 40]),
    ]
    assert.equal(exclusion(createHistory(events)).length, 2)
  })

  it('catches a holder that stays in any random history', () => {
    hunt({
      check: exclusion,
      rule: 'exclusion',
      bug: (history, random) => {
        const pairs = neighbours(history, (a, b) => a.mode === 'exclusive' && b.mode === 'exclusive')
        const [a, b] = pick(pairs, random) ?? []
        return a && b && prolong(history, a, b.granted! + 1)
      },
    })
  })
})

after(leakCheck)
