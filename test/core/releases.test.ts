// Releases that the store did not answer: repeated in the background, and once more by `close()`, which ends in any case.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import type { ReleaseResult } from '../../src/core/driver.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type Script, script } from '../support/scripted-driver.js'

after(leakCheck)

const lostAnswer = () => Promise.reject<ReleaseResult>(new Error('the connection was lost'))
const silence = () => new Promise<ReleaseResult>(() => undefined)

async function taken(s: Script, ttl = 6_000) {
  const taking = s.locks.mutex('m').acquire({ ttl })
  const grant = s.asked.at(-1)?.grant()
  assert.ok(grant !== undefined)
  return { lease: await taking, grant }
}

/** The next releases are answered only by the function that is returned. */
function answerLater(s: Script): (how: ReleaseResult) => void {
  let answer: (how: ReleaseResult) => void = () => assert.fail('nothing was sent')
  s.onRelease = () =>
    new Promise((resolve) => {
      answer = resolve
    })
  return (how) => answer(how)
}

test('a release that failed is repeated every sixth of the ttl until the store answers', async () => {
  const s = script()
  const { lease, grant } = await taken(s)
  s.onRelease = lostAnswer
  assert.equal(await lease.release(), 'unknown')
  await s.clock.advance(999)
  assert.equal(grant.releases, 1)
  await s.clock.advance(1)
  assert.equal(grant.releases, 2)
  s.onRelease = async () => 'already-released'
  await s.clock.advance(1_000)
  assert.equal(grant.releases, 3)
  await s.clock.advance(10_000)
  assert.equal(grant.releases, 3)
})

test('the attempt that comes due after the end of the lease is the last: the driver keeps the grant until one is answered or fails then', async () => {
  const s = script()
  const { lease, grant } = await taken(s)
  s.onRelease = lostAnswer
  await lease.release()
  await s.clock.advance(5_000)
  assert.equal(grant.releases, 6)
  assert.ok(s.clock.now() < grant.validUntil && s.clock.now() + 1_000 > grant.validUntil)
  await s.clock.advance(1_000)
  assert.equal(grant.releases, 7)
  await s.clock.advance(60_000)
  assert.equal(grant.releases, 7)
  await s.locks.close()
  assert.equal(grant.releases, 7)
})

test('close() repeats a release that waits for its next attempt, once, and none is sent after it', async () => {
  for (const answer of [lostAnswer, async (): Promise<ReleaseResult> => 'released']) {
    const s = script()
    const { lease, grant } = await taken(s)
    s.onRelease = lostAnswer
    await lease.release()
    s.onRelease = answer
    await Promise.all([s.locks.close(), s.locks.close()])
    assert.equal(grant.releases, 2)
    await s.locks.close()
    await s.clock.advance(60_000)
    assert.equal(grant.releases, 2)
  }
})

test('close() repeats its own release that failed', async () => {
  const s = script()
  const { grant } = await taken(s)
  const answers = [lostAnswer, async (): Promise<ReleaseResult> => 'already-released']
  s.onRelease = () => (answers.shift() ?? silence)()
  await s.locks.close()
  assert.equal(grant.releases, 2)
})

test('close() asks a silent store a second time, and ends when that is not answered either', async () => {
  const s = script()
  const { lease, grant } = await taken(s)
  s.onRelease = silence
  const released = lease.release()
  const closing = s.locks.close()
  await s.clock.advance(1_000)
  assert.equal(await released, 'unknown')
  assert.equal(grant.releases, 2)
  await s.clock.advance(1_000)
  await closing
  assert.equal(grant.releases, 2)
})

test('close() of many leases of a long ttl waits for a silent store no longer than 5 s at each step', async () => {
  const s = script()
  for (let i = 0; i < 3; i++) {
    const taking = s.locks.mutex(`m${i}`).acquire({ ttl: 600_000 })
    s.asked.at(-1)?.grant()
    await taking
  }
  s.onRelease = silence
  let closed = false
  const closing = s.locks.close().then(() => {
    closed = true
  })
  await s.clock.advance(5_000)
  assert.equal(closed, false)
  await s.clock.advance(5_000)
  await closing
})

test('a reply that waits behind a stalled event loop counts, although the time of its release is over', async () => {
  const s = script()
  const { lease, grant } = await taken(s)
  const answer = answerLater(s)
  const { at } = s.clock
  // After a stall the event loop runs the timers that are due, and then reads the sockets.
  s.clock.at = (time, fn, options) => {
    const late = () => {
      fn()
      answer('released')
    }
    return at(time, late, options)
  }
  const released = lease.release()
  await settle()
  s.clock.stall(2_000)
  await s.clock.advance(0)
  assert.equal(await released, 'released')
  await s.clock.advance(10_000)
  assert.equal(grant.releases, 1)
  await s.locks.close()
})

test('close() waits for a release on its way and does not repeat it', async () => {
  const s = script()
  const { lease, grant } = await taken(s)
  const answer = answerLater(s)
  const released = lease.release()
  const closing = s.locks.close()
  await s.clock.advance(500)
  answer('released')
  assert.equal(await released, 'released')
  await closing
  assert.equal(grant.releases, 1)
})

test('close() does not repeat the release of a hold that has expired meanwhile', async () => {
  const s = script()
  const { lease, grant } = await taken(s)
  s.onRelease = lostAnswer
  await lease.release()
  // The event loop is paused, so that the attempts in between do not run.
  s.clock.stall(6_000)
  await s.locks.close()
  assert.equal(grant.releases, 1)
})

test('the release of an unwanted grant is retried just as persistently', async () => {
  const s = script()
  const abort = new AbortController()
  const gone = assert.rejects(s.locks.mutex('m').acquire({ ttl: 6_000, signal: abort.signal }), /gone/)
  abort.abort(new Error('gone'))
  await gone
  s.onRelease = lostAnswer
  const grant = s.asked[0]?.grant()
  await s.clock.advance(1_000)
  assert.equal(grant?.releases, 2)
  await s.locks.close()
  assert.equal(grant?.releases, 3)
})

test('a lock whose last hold a listener releases during a new request is still known to close()', async () => {
  const locks = createLocks(memory())
  // So many that a queue without holders and waiters is forgotten.
  for (let i = 0; i < 300; i++) await (await locks.mutex(`name ${i}`).acquire()).release()
  const first = await locks.mutex('m').acquire()
  const stop = locks.on('requested', () => {
    stop()
    void first.release()
  })
  const second = await locks.mutex('m').acquire()
  assert.equal((await locks.health()).held, 1)
  await locks.close()
  assert.equal(second.isHeld, false)
})
