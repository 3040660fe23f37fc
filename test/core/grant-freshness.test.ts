// Grants with little time left when they are read: the event loop was blocked, or the reply was delayed. They are renewed before
// they are handed over, so that their waiter keeps its turn.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { AcquireOptions } from '../../src/index.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type Script, script } from '../support/scripted-driver.js'

after(leakCheck)

/** A waiter whose grant comes with 50 of its 1,000 ms left. */
async function stale(s: Script, options: AcquireOptions = {}) {
  const acquiring = s.locks.mutex('m').acquire({ ttl: 1_000, fair: true, ...options })
  acquiring.catch(() => undefined)
  await settle()
  const asked = s.asked.length
  s.clock.stall(940)
  const grant = s.asked[asked - 1]!.grant({ validUntil: s.clock.now() + 50 })
  await settle()
  return { acquiring, grant }
}

test('a stale grant is renewed and handed over, and nothing is requested again', async () => {
  for (const fair of [true, false]) {
    const s = script()
    const { acquiring, grant } = await stale(s, { fair })
    assert.deepEqual(
      grant.renewals.map(({ ttl }) => ttl),
      [1_000],
    )
    grant.renewals[0]?.ok()
    const lease = await acquiring
    assert.ok(lease.remaining() >= 900, `${lease.remaining()} ms are left`)
    assert.deepEqual([lease.token, s.asked.length, grant.releases], [grant.token, 1, 0])
    assert.equal(await lease.release(), 'released')
    assert.equal(grant.releases, 1)
  }
})

test('a stale grant that the store reports as expired is released, and its waiter requests again', async () => {
  const s = script()
  const { acquiring, grant } = await stale(s)
  grant.renewals[0]?.gone()
  await settle()
  assert.deepEqual([grant.releases, s.asked.length], [1, 2])
  s.asked[1]?.grant()
  assert.equal((await acquiring).isHeld, true)
})

test('a renewal of a stale grant that fails is tried again; one that is not answered ends with the time of a renewal', async () => {
  const s = script()
  const first = await stale(s)
  first.grant.renewals[0]?.fail(new Error('the connection was lost'))
  await s.clock.advance(40)
  assert.equal(first.grant.renewals.length, 2)
  first.grant.renewals[1]?.ok()
  await (await first.acquiring).release()

  const second = await stale(s)
  await s.clock.advance(170)
  assert.equal(second.grant.renewals[0]?.signal.aborted, true)
  assert.deepEqual([second.grant.releases, s.asked.length], [1, 3])
  s.asked[2]?.grant()
  await (await second.acquiring).release()
})

test('a grant with enough time left is handed over when the store does not reply', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire({ ttl: 1_000 })
  await settle()
  const grant = s.asked[0]!.grant({ validUntil: s.clock.now() + 500 })
  await s.clock.advance(170)
  const lease = await acquiring
  assert.equal(Math.round(lease.remaining()), 330)
  assert.equal(grant.releases, 0)
  await lease.release()
})

test('a waiter that gives up while its grant is renewed leaves nothing behind', async () => {
  for (const how of ['abort', 'deadline', 'close'] as const) {
    const s = script()
    const abort = new AbortController()
    const { acquiring, grant } = await stale(s, {
      signal: abort.signal,
      ...(how === 'deadline' && { wait: 1_000 }),
    })
    if (how === 'abort') abort.abort(new Error('gone'))
    const closing = how === 'close' ? s.locks.close() : undefined
    // After a stall a wait has time for another request.
    await s.clock.advance(300)
    await closing
    await assert.rejects(acquiring)
    assert.equal(grant.renewals[0]?.signal.aborted, true, how)
    assert.equal(grant.releases, 1, how)
    // The renewal is carried out after all: it changes nothing.
    grant.renewals[0]?.ok()
    await settle()
    assert.equal(grant.releases, 1, how)
  }
})

test('another request of the process takes over a stale grant whose waiter gives up', async () => {
  const s = script()
  const abort = new AbortController()
  const { acquiring, grant } = await stale(s, { fair: false, signal: abort.signal })
  const next = s.locks.mutex('m').acquire({ ttl: 1_000 })
  await settle()
  assert.equal(await s.locks.mutex('m').tryAcquire(), undefined)
  abort.abort(new Error('gone'))
  await assert.rejects(acquiring, { message: 'gone' })
  grant.renewals[0]?.ok()
  const lease = await next
  assert.deepEqual([lease.token, s.asked.length, grant.releases], [grant.token, 1, 0])
  assert.ok(lease.remaining() >= 900)
  await lease.release()
})

test('the event loop is blocked again while a stale grant is renewed: an expired grant is released', async () => {
  const s = script()
  const { acquiring, grant } = await stale(s)
  grant.renewals[0]?.ok()
  s.clock.stall(5_000)
  await settle()
  assert.deepEqual([grant.releases, s.asked.length], [1, 2])
  s.asked[1]?.grant()
  assert.equal((await acquiring).isHeld, true)
})
