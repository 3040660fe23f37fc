import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, leaks } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { edit, event, held, hunt, pick } from '../bugs.js'

describe('the leak checker', () => {
  it('sees a lease that was never released', () => {
    const events = held('a', 'a:1', [0, 1, 10], { token: 4 }).slice(0, 2)
    assert.match(leaks(createHistory(events))[0]?.message ?? '', /token 4 was neither released nor lost/)
    const lost = event(5, 'a', 'a:1', { op: 'lost', phase: 'info' })
    assert.deepEqual(leaks(createHistory([...events, lost])), [])
  })

  it('sees what the store still has at the end, and only at the end', () => {
    const standing = (t: number, holders: number, waiters: number) =>
      event(t, 'o', `o:${t}`, { op: 'standing', phase: 'info', holders, waiters })
    assert.deepEqual(leaks(createHistory([standing(0, 1, 2), standing(1, 0, 0)])), [])
    assert.match(
      leaks(createHistory([standing(0, 0, 0), standing(1, 0, 1)]))[0]?.message ?? '',
      /0 holders and 1 waiters/,
    )
  })

  it('catches a forgotten release in any random history', () => {
    hunt({
      check: leaks,
      rule: 'leaks',
      bug: (history, random) => {
        const one = pick(
          history.acquisitions.filter((one) => one.releasing !== undefined && one.died === undefined),
          random,
        )
        return one && edit(history, one.attempt, (event) => (event.op === 'release' ? undefined : event))
      },
    })
  })
})

after(leakCheck)
