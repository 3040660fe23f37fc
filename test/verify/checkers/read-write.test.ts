import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createHistory, exclusion, readWrite } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { event, held, hunt, neighbours, pick, prolong } from '../bugs.js'

const read = { mode: 'shared' } as const

describe('the read/write checker', () => {
  it('sees a writer beside a reader, in either order', () => {
    const first = [...held('r', 'r:1', [0, 1, 10], read), ...held('w', 'w:1', [2, 9, 20])]
    assert.match(readWrite(createHistory(first))[0]?.message ?? '', /read and written at once for 1\.000 ms/)
    const second = [...held('w', 'w:1', [0, 1, 10]), ...held('r', 'r:1', [2, 9, 20], read)]
    assert.equal(readWrite(createHistory(second)).length, 1)
  })

  it('has nothing against readers together', () => {
    const events = [
      ...held('r', 'r:1', [0, 1, 10], read),
      ...held('s', 's:1', [0, 2, 12], read),
      ...held('w', 'w:1', [2, 12, 20]),
    ]
    assert.deepEqual(readWrite(createHistory(events)), [])
  })

  it('counts a writer that became a reader as a reader from then on', () => {
    const writer = held('w', 'w:1', [0, 1, 20])
    const reader = held('r', 'r:1', [2, 9, 30], read)
    const downgrade = event(8, 'w', 'w:1', { op: 'downgrade', phase: 'invoke' })
    assert.deepEqual(readWrite(createHistory([...writer, downgrade, ...reader])), [])
    assert.equal(readWrite(createHistory([...writer, ...reader])).length, 1)
    const next = held('v', 'v:1', [2, 15, 18])
    assert.equal(readWrite(createHistory([...writer, downgrade, ...next])).length, 1)
    assert.deepEqual(exclusion(createHistory([...writer, downgrade, ...next])), [])
  })

  it('catches a holder that stays in any random history', () => {
    hunt({
      check: readWrite,
      rule: 'read-write',
      simulation: { names: ['rw'] },
      bug: (history, random) => {
        const [a, b] =
          pick(
            neighbours(history, (a, b) => a.mode !== b.mode),
            random,
          ) ?? []
        return a && b && prolong(history, a, b.granted! + 1)
      },
    })
  })
})

after(leakCheck)
