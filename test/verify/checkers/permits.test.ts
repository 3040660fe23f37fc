import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, permits } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { edit, held, hunt, pick } from '../bugs.js'

const take = (permits: number) => ({ mode: 'permits', permits, of: 3 }) as const

describe('the permits checker', () => {
  it('sees more permits taken than there are, by weight', () => {
    const events = [...held('a', 'a:1', [0, 1, 10], take(2)), ...held('b', 'b:1', [0, 5, 10], take(2))]
    const [found] = permits(createHistory(events))
    assert.match(found?.message ?? '', /4 permits of 3 taken at once by 2 holders/)
    assert.equal(found?.parties.length, 2)
  })

  it('has nothing against as many as there are, and lets one begin where another ends', () => {
    const events = [
      ...held('a', 'a:1', [0, 1, 10], take(2)),
      ...held('b', 'b:1', [0, 2, 20], take(1)),
      ...held('c', 'c:1', [0, 10, 20], take(2)),
    ]
    assert.deepEqual(permits(createHistory(events)), [])
  })

  it('sees another mode beside permits', () => {
    const events = [...held('a', 'a:1', [0, 1, 10], take(1)), ...held('b', 'b:1', [0, 5, 10])]
    assert.match(permits(createHistory(events))[0]?.message ?? '', /1 permits and 1 holds of another mode/)
  })

  it('catches one permit too many in any random history', () => {
    hunt({
      check: permits,
      rule: 'permits',
      simulation: { names: ['sem'], clients: 8 },
      bug: (history, random) => {
        const full = history.acquisitions.filter((one) => {
          if (one.granted === undefined) return false
          const beside = history.acquisitions.filter((other) => isHeldAt(other, one.granted!))
          return beside.reduce((sum, other) => sum + other.permits, 0) === one.of
        })
        const one = pick(full, random)
        return one && edit(history, one.attempt, (event) => ({ ...event, permits: one.permits + 1 }))
      },
    })
  })
})

function isHeldAt(
  one: {
    granted: number | undefined
    releasing: number | undefined
    died: number | undefined
    lost: number | undefined
    until: number | undefined
  },
  t: number,
): boolean {
  if (one.granted === undefined || one.granted > t) return false
  return [one.releasing, one.died, one.lost, one.until].every((end) => end === undefined || end > t)
}

after(leakCheck)
