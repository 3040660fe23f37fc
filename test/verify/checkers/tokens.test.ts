import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { type Acquisition, createHistory, type History, tokens } from 'holdfast/verify'
import { leakCheck } from '../../support/leaks.js'
import { edit, event, held, hunt, pick } from '../bugs.js'

describe('the token checker', () => {
  it('sees a token that goes back after an earlier acquisition had returned', () => {
    const events = [
      ...held('a', 'a:1', [0, 1, 2], { token: 7 }),
      ...held('b', 'b:1', [3, 4, 5], { token: 6 }),
    ]
    assert.match(tokens(createHistory(events))[0]?.message ?? '', /token 6 came after 7/)
  })

  it('allows any order to acquisitions that were under way together', () => {
    const events = [
      ...held('a', 'a:1', [0, 3, 4], { token: 7 }),
      ...held('b', 'b:1', [2, 5, 6], { token: 6 }),
    ]
    assert.deepEqual(tokens(createHistory(events)), [])
  })

  it('sees a repeated token, also of acquisitions under way together', () => {
    const events = [
      ...held('a', 'a:1', [0, 3, 4], { token: 7 }),
      ...held('b', 'b:1', [2, 5, 6], { token: 7 }),
    ]
    assert.match(tokens(createHistory(events))[0]?.message ?? '', /token 7 was given twice/)
    const far = [...held('a', 'a:1', [0, 1, 2], { token: 7 }), ...held('b', 'b:1', [3, 4, 5], { token: 7 })]
    assert.equal(tokens(createHistory(far)).length, 1)
  })

  it('sees a token that changes within an acquisition, at a renewal or at the guard', () => {
    const events = held('a', 'a:1', [0, 1, 9], { token: 7 })
    for (const op of ['renew', 'write'] as const) {
      const other = event(5, 'a', 'a:1', { op, phase: 'ok', token: 8 })
      assert.match(
        tokens(createHistory([...events, other]))[0]?.message ?? '',
        new RegExp(`token 7 had become 8 at the ${op}`),
      )
    }
  })

  it('sees a token that a number cannot hold exactly', () => {
    const events = held('a', 'a:1', [0, 1, 9], { token: 2 ** 53 })
    assert.match(tokens(createHistory(events))[0]?.message ?? '', /no safe integer/)
  })

  it('keeps names apart', () => {
    const events = [
      ...held('a', 'a:1', [0, 1, 2], { token: 7 }),
      ...held('b', 'b:1', [3, 4, 5], { token: 7, name: 'y' }),
    ]
    assert.deepEqual(tokens(createHistory(events)), [])
  })

  const pairs = (history: History) => {
    const granted = history.acquisitions.filter((one) => one.token !== undefined)
    return granted.flatMap((a) =>
      granted
        .filter((b) => b.name === a.name && b.invoked > a.granted!)
        .map((b): [Acquisition, Acquisition] => [a, b]),
    )
  }
  const retoken = (history: History, one: Acquisition, token: number) =>
    edit(history, one.attempt, (event) => (event.token === undefined ? event : { ...event, token }))

  it('catches two tokens that changed places in any random history', () => {
    hunt({
      check: tokens,
      rule: 'tokens',
      bug: (history, random) => {
        const [a, b] = pick(pairs(history), random) ?? []
        if (!a || !b) return undefined
        return retoken(createHistory(retoken(history, a, b.token!)), b, a.token!)
      },
    })
  })

  it('catches a repeated token in any random history', () => {
    hunt({
      check: tokens,
      rule: 'tokens',
      bug: (history, random) => {
        const [a, b] = pick(pairs(history), random) ?? []
        return a && b && retoken(history, b, a.token!)
      },
    })
  })
})

after(leakCheck)
