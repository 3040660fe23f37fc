import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, type Event, guard, type History } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { event, hunt, pick } from '../bugs.js'

const write = (
  client: string,
  sent: number,
  answered: number,
  token: number,
  facts: Partial<Event> = {},
): Event[] => [
  event(sent, client, `${client}:1`, { op: 'write', phase: 'invoke', token }),
  event(answered, client, `${client}:1`, { op: 'write', phase: 'ok', token, ...facts }),
]

describe('the guard checker', () => {
  it('sees a stale write accepted after a newer one', () => {
    const found = guard(createHistory([...write('a', 0, 1, 2), ...write('b', 2, 3, 1)]))
    assert.match(found[0]?.message ?? '', /a write with token 1 was accepted after one with 2/)
  })

  it('allows both orders of two writes that overlap, unless the resource tells its order', () => {
    assert.deepEqual(guard(createHistory([...write('a', 0, 3, 2), ...write('b', 2, 4, 1)])), [])
    const told = [...write('a', 0, 3, 2, { seq: 1 }), ...write('b', 2, 4, 1, { seq: 2 })]
    assert.equal(guard(createHistory(told)).length, 1)
  })

  it('sees a write refused as stale although nothing newer had been sent', () => {
    const refused = write('a', 0, 1, 5, { phase: 'fail', kind: 'stale' })
    assert.match(
      guard(createHistory([...write('b', 0, 0.5, 4), ...refused]))[0]?.message ?? '',
      /refused as stale/,
    )
    assert.deepEqual(guard(createHistory([...write('b', 0.5, 2, 6), ...refused])), [])
  })

  it('says nothing about writes without a token', () => {
    const events = [...write('a', 0, 1, 2), event(2, 'b', 'b:1', { op: 'write', phase: 'ok' })]
    assert.deepEqual(guard(createHistory(events)), [])
  })

  const accepted = (history: History) =>
    history.events.filter((one) => one.op === 'write' && one.phase === 'ok')

  it('catches an accepted write turned stale in any random history, with and without the order of the resource', () => {
    for (const told of [true, false]) {
      hunt({
        check: guard,
        rule: 'guard',
        simulation: { names: ['a'], clients: 3 },
        bug: (history, random) => {
          const writes = accepted(history)
          const later = pick(
            writes.slice(1).filter((one) => one.token! > writes[0]!.token!),
            random,
          )
          if (later === undefined) return undefined
          return history.events.map((one) => {
            const { seq: _, ...unordered } = one
            const event = told ? one : unordered
            return one.op === 'write' && one.attempt === later.attempt
              ? { ...event, token: writes[0]!.token! - 1 }
              : event
          })
        },
      })
    }
  })
})

after(leakCheck)
