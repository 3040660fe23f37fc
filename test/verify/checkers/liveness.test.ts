import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, liveness } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { edit, event, held, hunt, pick } from '../bugs.js'

const fault = event(50, 'nemesis', 'cut', { op: 'fault', phase: 'ok', kind: 'cut' })

describe('the liveness checker', () => {
  it('sees a wait that goes on after faults have stopped', () => {
    const events = [fault, ...held('a', 'a:1', [0, 100, 110])]
    assert.match(
      liveness(createHistory(events), { within: 40 })[0]?.message ?? '',
      /took 50\.000 ms after the last fault/,
    )
    assert.deepEqual(liveness(createHistory(events), { within: 50 }), [])
  })

  it('counts a later call from itself', () => {
    const events = [fault, ...held('a', 'a:1', [80, 100, 110])]
    assert.deepEqual(liveness(createHistory(events), { within: 20 }), [])
    assert.equal(liveness(createHistory(events), { within: 19 }).length, 1)
  })

  it('sees a wait that never ends, unless its process was killed', () => {
    const waiting = held('a', 'a:1', [0, 1, 2]).slice(0, 1)
    assert.match(
      liveness(createHistory([...waiting, fault]), { within: 1_000 })[0]?.message ?? '',
      /never ended/,
    )
    const kill = event(20, 'nemesis', 'kill', {
      op: 'fault',
      phase: 'invoke',
      kind: 'kill',
      target: waiting[0]!.pid,
    })
    assert.deepEqual(liveness(createHistory([...waiting, kill, fault]), { within: 1_000 }), [])
  })

  it('knows that a process may still ask for something while it is being killed', () => {
    const [invoke] = held('a', 'a:1', [21, 1, 2])
    const kill = (t: number, phase: 'invoke' | 'ok') =>
      event(t, 'nemesis', 'kill', { op: 'fault', phase, kind: 'kill', target: invoke!.pid })
    assert.deepEqual(
      liveness(createHistory([kill(20, 'invoke'), invoke!, kill(22, 'ok'), fault]), { within: 1 }),
      [],
    )
    assert.equal(
      liveness(createHistory([kill(18, 'invoke'), kill(20, 'ok'), invoke!, fault]), { within: 1 }).length,
      1,
    )
  })

  it('lets a caller be as patient as it said', () => {
    const [invoke] = held('a', 'a:1', [60, 1, 2], { wait: 30 })
    const gaveUp = event(89, 'a', 'a:1', { op: 'acquire', phase: 'fail', kind: 'ACQUIRE_TIMEOUT' })
    assert.deepEqual(liveness(createHistory([fault, invoke!, gaveUp]), { within: 10 }), [])
  })

  it('catches a grant that never comes in any random history', () => {
    hunt({
      check: (history) => liveness(history, { within: 1_000 }),
      rule: 'liveness',
      bug: (history, random) => {
        const granted = history.acquisitions.filter(
          (one) => one.granted !== undefined && one.died === undefined,
        )
        const one = pick(granted, random)
        return (
          one &&
          edit(history, one.attempt, (event) =>
            event.phase === 'invoke' && event.op === 'acquire' ? event : undefined,
          )
        )
      },
    })
  })
})

after(leakCheck)
