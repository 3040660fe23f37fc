// What the replies of one round mean, without a server.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Node } from '../../../src/drivers/redlock/node.js'
import {
  blockedBy,
  type Electorate,
  isDecided,
  pauseAfter,
  wouldVote,
} from '../../../src/drivers/redlock/round-outcome.js'
import type { Vote } from '../../../src/drivers/redlock/votes.js'
import { leakCheck } from '../../support/leaks.js'

after(leakCheck)

const holder = {
  attempt: 'other',
  mode: { kind: 'exclusive' },
  token: 7,
  heldFor: 1,
  expiresIn: 500,
} as const

const yes: Vote = { letter: 'y', ballot: 9, holder: undefined, position: 0 }
const no: Vote = { letter: 'n', ballot: 9, holder, position: 2 }
const higher: Vote = { letter: 'h', ballot: 12, holder: undefined, position: 0 }
const lost = new Error('connection lost')

/** Servers, all trusted; those in `silent` have not answered an earlier round. */
function servers(count: number, ...silent: number[]): Electorate {
  const nodes = Array.from({ length: count }, (_, place) => ({
    label: `server ${place}`,
    trusted: true,
    silent: silent.includes(place),
    quarantined: false,
    untrustedReason: '',
    connection: { outage: undefined },
  }))
  return { nodes: nodes as unknown as readonly Node[], majority: Math.floor(count / 2) + 1 }
}

const rounds: readonly (readonly [string, boolean, Electorate, readonly (Vote | Error | undefined)[]])[] = [
  ['nobody has answered', false, servers(3), [undefined, undefined, undefined]],
  ['one vote is missing', false, servers(3), [yes, undefined, undefined]],
  ['a majority has voted for one ballot', true, servers(3), [yes, yes, undefined]],
  ['a majority has refused', true, servers(3), [no, no, undefined]],
  ['one has refused, and two could still vote', false, servers(3), [no, undefined, undefined]],
  ['too few are left to know whether the lock is taken', true, servers(3), [no, lost, lost]],
  ['no vote can come, and one answer is missing for a majority', false, servers(3), [no, lost, undefined]],
  [
    'that answer is one of a silent server, for which no round waits',
    true,
    servers(3, 2),
    [no, lost, undefined],
  ],
  ['where a majority is silent, they are waited for', false, servers(3, 1, 2), [no, undefined, undefined]],
]
for (const [what, decided, electorate, votes] of rounds)
  test(`a round is ${decided ? '' : 'not '}decided: ${what}`, () => {
    assert.equal(isDecided(votes, electorate), decided)
  })

test('a greater ballot is asked for at once only where a majority would vote for it', () => {
  assert.deepEqual([wouldVote([yes, higher, no], 2), wouldVote([no, higher, lost], 2)], [true, false])
})

test('what blocks a claim: the holder that servers name, the position in their queue, and servers that are missing', () => {
  assert.deepEqual(blockedBy([no, no, yes], servers(3)), { holder, position: 2 })
  assert.deepEqual(blockedBy([yes, { ...yes, ballot: 8 }, higher], servers(3)), {})
  const { error, ...rest } = blockedBy([no, lost, undefined], servers(3))
  assert.deepEqual(rest, { holder, position: 2 })
  assert.match(error?.message ?? '', /fewer than 2 of 3 servers can vote .*server 2: no answer in time/)
  assert.equal(error?.unanswered, true)
})

test('the pause before the next round ends when the hold does, or soon after split votes', () => {
  assert.equal(pauseAfter({ holder }, 200, 0.5), 200)
  assert.equal(pauseAfter({ holder: { ...holder, expiresIn: 20 } }, 200, 0.5), 25)
  assert.equal(pauseAfter({}, 200, 0.5), 10)
  assert.equal(pauseAfter({}, 200, 0), 5)
})
