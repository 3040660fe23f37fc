// A store that mints every token itself: the grant is passed on inside the process with one request for the next token.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { maxContendedHandoffs } from '../../src/core/handoff-limit.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type Script, type ScriptedGrant, script } from '../support/scripted-driver.js'

after(leakCheck)

interface Mint {
  give(token: number | undefined): void
  fail(error: Error): void
}

/** A grant whose requests for the next token are answered by hand. */
function minting(mints: Mint[]): Partial<ScriptedGrant> {
  return {
    token: 100,
    nextToken: () => new Promise((give, fail) => void mints.push({ give, fail })),
  }
}

/** One holder, and as many others of the process behind it. */
async function held(s: Script, behind: number) {
  const mints: Mint[] = []
  const waits = Array.from({ length: behind + 1 }, () => s.locks.mutex('m').acquire())
  await settle()
  const grant = s.asked[0]!.grant(minting(mints))
  const [first, ...others] = waits
  return { mints, grant, first: await first!, others }
}

test('the next holder has the token of the request, and nobody holds until the reply', async () => {
  const s = script()
  const { mints, grant, first, others } = await held(s, 1)
  assert.equal(await first.release(), 'released')
  let got = false
  void others[0]!.then(() => {
    got = true
  })
  await settle()
  assert.deepEqual([mints.length, got, grant.releases], [1, false, 0])
  assert.equal(await s.locks.mutex('m').tryAcquire(), undefined, 'busy without a request')
  mints[0]!.give(101)
  const second = await others[0]!
  assert.equal(second.token, 101)
  assert.equal(s.asked.length, 1)
  await second.release()
  assert.equal(grant.releases, 1)
})

for (const [how, answer] of [
  ['refused', (mint: Mint) => mint.give(undefined)],
  ['not answered clearly', (mint: Mint) => mint.fail(new Error('the connection broke'))],
] as const) {
  test(`a request that is ${how} sends the grant back, and the next one asks the store`, async () => {
    const s = script()
    const { mints, grant, first, others } = await held(s, 1)
    await first.release()
    answer(mints[0]!)
    await settle()
    assert.deepEqual([grant.releases, s.asked.length], [1, 2])
    s.asked[1]!.grant({ token: 200 })
    const second = await others[0]!
    assert.equal(second.token, 200)
    await second.release()
  })
}

test('one that takes too long releases the grant, and its late reply grants nothing', async () => {
  const s = script()
  const { mints, grant, first, others } = await held(s, 1)
  await first.release()
  await s.clock.advance(13_000)
  assert.deepEqual([grant.releases, s.asked.length], [1, 2])
  mints[0]!.give(101)
  await settle()
  s.asked[1]!.grant({ token: 200 })
  const second = await others[0]!
  assert.equal(second.token, 200)
  await second.release()
})

test('when the next holder gives up meanwhile the one behind it is served, and with nobody left the grant is released', async () => {
  const s = script()
  const mints: Mint[] = []
  const stop = new AbortController()
  const first = s.locks.mutex('m').acquire()
  const gone = assert.rejects(s.locks.mutex('m').acquire({ signal: stop.signal }), { message: 'gone' })
  const last = s.locks.mutex('m').acquire()
  await settle()
  const grant = s.asked[0]!.grant(minting(mints))
  await (await first).release()
  stop.abort(new Error('gone'))
  await gone
  mints[0]!.give(101)
  const lease = await last
  assert.equal(lease.token, 101)
  const none = new AbortController()
  const nobody = assert.rejects(s.locks.mutex('m').acquire({ signal: none.signal }), { message: 'gone' })
  await lease.release()
  none.abort(new Error('gone'))
  await nobody
  assert.equal(grant.releases, 0)
  mints[1]!.give(102)
  await settle()
  assert.equal(grant.releases, 1)
})

test('a grant that is lost during the request is handed to nobody', async () => {
  const s = script()
  const mints: Mint[] = []
  const lost = new AbortController()
  const [first, second] = [s.locks.mutex('m').acquire(), s.locks.mutex('m').acquire()]
  await settle()
  const grant = s.asked[0]!.grant({ ...minting(mints), lost: lost.signal })
  const lease = await first
  await settle()
  await lease.release()
  grant.validUntil = Number.NEGATIVE_INFINITY
  lost.abort(new Error('removed by an operator'))
  await settle()
  assert.equal(s.asked.length, 2, 'the next one asks the store without waiting for the token')
  mints[0]!.give(101)
  await settle()
  s.asked[1]!.grant({ token: 200 })
  assert.equal((await second).token, 200)
  await (await second).release()
})

test(`it is passed on at most ${maxContendedHandoffs} times while others may wait in the store`, async () => {
  const s = script()
  const { mints, grant, first, others } = await held(s, 20)
  let [lease, token] = [first, 100]
  for (let i = 0; i < maxContendedHandoffs; i++) {
    await lease.release()
    mints[i]!.give(++token)
    lease = await others[i]!
    assert.equal(lease.token, token)
  }
  await lease.release()
  await settle()
  assert.deepEqual([mints.length, grant.releases, s.asked.length], [maxContendedHandoffs, 1, 2])
  const ended = Promise.allSettled(others)
  const closed = s.locks.close()
  s.asked[1]!.nothing()
  await closed
  await ended
})

test('closing during the request releases the grant', async () => {
  const s = script()
  const { mints, grant, first, others } = await held(s, 1)
  await first.release()
  await settle()
  const refused = assert.rejects(others[0]!, { code: 'CLOSED' })
  await s.locks.close()
  await refused
  assert.equal(grant.releases, 1)
  assert.equal(s.clock.pending, 0, 'a timer is left')
  mints[0]!.give(101)
  await settle()
  assert.equal(grant.releases, 1)
})
