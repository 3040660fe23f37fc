import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, type Event, witness } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { event, hunt, pick } from '../bugs.js'

const access = (
  op: 'read' | 'write',
  client: string,
  sent: number,
  answered: number,
  value: number,
  phase: Event['phase'] = 'ok',
) => [
  event(sent, client, `${client}:1`, { op, phase: 'invoke' }),
  event(answered, client, `${client}:1`, { op, phase, value }),
]

describe('the witness checker', () => {
  it('sees a lost update as a value written twice', () => {
    const events = [
      ...access('read', 'a', 0, 1, 5),
      ...access('read', 'b', 0, 1, 5),
      ...access('write', 'a', 2, 3, 6),
      ...access('write', 'b', 4, 5, 6),
    ]
    assert.match(witness(createHistory(events))[0]?.message ?? '', /6 was written twice, one update is lost/)
  })

  it('does not count writes that were refused or whose answer is not known', () => {
    for (const phase of ['fail', 'info'] as const) {
      const events = [...access('write', 'a', 2, 3, 6), ...access('write', 'b', 4, 5, 6, phase)]
      assert.deepEqual(witness(createHistory(events)), [])
    }
  })

  it('sees a read that goes back', () => {
    const events = [...access('write', 'a', 2, 3, 6), ...access('read', 'b', 4, 5, 5)]
    assert.match(witness(createHistory(events))[0]?.message ?? '', /5 was read after 6/)
    const together = [...access('write', 'a', 2, 4.5, 6), ...access('read', 'b', 4, 5, 5)]
    assert.deepEqual(witness(createHistory(together)), [])
  })

  it('catches an update lost in any random history', () => {
    hunt({
      check: witness,
      rule: 'witness',
      simulation: { names: ['a'], clients: 3 },
      bug: (history, random) => {
        const writes = history.events.filter((one) => one.op === 'write' && one.phase === 'ok')
        const one = pick(writes.slice(1), random)
        return (
          one &&
          history.events.map((event) => (event === one ? { ...event, value: writes[0]!.value! } : event))
        )
      },
    })
  })
})

after(leakCheck)
