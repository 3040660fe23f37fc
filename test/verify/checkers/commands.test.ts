import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { commands, createHistory } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { event, held } from '../bugs.js'

const counter = (t: number, count: number) =>
  event(t, 'o', `o:${t}`, { op: 'commands', phase: 'info', count })

describe('the commands checker', () => {
  const served = [...held('a', 'a:1', [1, 2, 3]), ...held('b', 'b:1', [4, 5, 6])]

  it('sees more commands for each acquisition than allowed', () => {
    const found = commands(createHistory([counter(0, 100), ...served, counter(9, 105)]), { max: 2 })
    assert.match(found[0]?.message ?? '', /5 commands for 2 acquisitions, 2\.50 each; at most 2 each/)
    assert.deepEqual(commands(createHistory([counter(0, 100), ...served, counter(9, 104)]), { max: 2 }), [])
  })

  it('counts only what was served between the readings', () => {
    const found = commands(createHistory([...served, counter(10, 0), counter(11, 3)]), { max: 2 })
    assert.match(found[0]?.message ?? '', /3 commands for no acquisition/)
  })

  it('says nothing without two readings', () => {
    assert.deepEqual(commands(createHistory([...served, counter(10, 7)]), { max: 0 }), [])
  })
})

after(leakCheck)
