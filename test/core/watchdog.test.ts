import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { LeaseLostError } from '../../src/core/errors.js'
import type { Lease } from '../../src/core/lease.js'
import type { AcquireOptions } from '../../src/core/options.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type Script, type ScriptedGrant, script } from '../support/scripted-driver.js'

after(leakCheck)

async function hold(
  options: AcquireOptions = { ttl: 9_000 },
  parts: Partial<ScriptedGrant> = {},
): Promise<{ s: Script; lease: Lease; grant: ScriptedGrant }> {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire(options)
  await settle()
  const grant = s.asked[0]!.grant(parts)
  return { s, lease: await acquiring, grant }
}

test('the deadline is counted from before the request left, however late the answer comes', async () => {
  const s = script()
  const sent = s.clock.now()
  const acquiring = s.locks.mutex('m').acquire({ ttl: 1_000 })
  await s.clock.advance(300)
  s.asked[0]!.grant()
  const lease = await acquiring
  assert.equal(lease.remaining(), sent + 1_000 - 10 - 2 - s.clock.now())
  await s.clock.advance(lease.remaining() - 1)
  assert.equal(lease.isHeld, true)
  await s.clock.advance(1)
  assert.equal(lease.isHeld, false)
})

test('a grant with hardly any time left that cannot be renewed is released and requested again', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire({ ttl: 1_000 })
  await s.clock.advance(950)
  const late = s.asked[0]!.grant()
  await settle()
  late.renewals[0]!.gone()
  await settle()
  assert.equal(late.releases, 1)
  assert.equal(s.asked.length, 2)
  assert.notEqual(s.asked[1]!.claim.attempt, s.asked[0]!.claim.attempt)
  s.asked[1]!.grant()
  assert.equal((await acquiring).token, 200)
})

test('a third of the ttl after the last proof a renewal is sent, again and again', async () => {
  const { s, lease, grant } = await hold()
  for (let round = 1; round <= 5; round++) {
    await s.clock.advance(3_000)
    assert.equal(grant.renewals.length, round)
    grant.renewals.at(-1)!.ok()
    await settle()
    assert.equal(lease.state, 'held')
  }
  await lease.release()
  await s.clock.advance(30_000)
  assert.equal(grant.renewals.length, 5, 'nothing is renewed after the release')
})

test('renewals that are never answered are tried at least three times inside a ttl, then the lease is lost on time', async () => {
  const { s, lease, grant } = await hold()
  const states: string[] = []
  s.locks.on('doubtful', () => states.push('doubtful'))
  s.locks.on('lost', ({ why }) => states.push(why))
  const end = s.clock.now() + lease.remaining()
  await s.clock.advance(5_000)
  assert.equal(lease.state, 'doubtful')
  assert.equal(lease.isHeld, true, 'silence alone never means lost')
  await s.clock.advance(end - s.clock.now() - 1)
  assert.equal(lease.isHeld, true)
  assert.ok(grant.renewals.length >= 3, `tried ${grant.renewals.length} times`)
  for (const tried of grant.renewals.slice(0, -1))
    assert.equal(tried.signal.aborted, true, 'an unanswered try was ended')
  await s.clock.advance(1)
  assert.equal(lease.state, 'lost')
  assert.deepEqual(states, ['doubtful', 'expired'])
})

test('renewals that fail at once are tried again until the deadline, without hammering', async () => {
  const { s, lease, grant } = await hold()
  const refuse = setInterval(() => grant.renewals.at(-1)?.fail(new Error('ECONNREFUSED')), 0)
  await s.clock.advance(9_000)
  clearInterval(refuse)
  assert.equal(lease.state, 'lost')
  assert.ok(grant.renewals.length >= 3 && grant.renewals.length <= 20, `tried ${grant.renewals.length} times`)
})

test('one good renewal after failures makes it held again, and doubt is reported once per episode', async () => {
  const { s, lease, grant } = await hold()
  let doubts = 0
  s.locks.on('doubtful', () => doubts++)
  for (const episode of [1, 2]) {
    await s.clock.advance(3_000)
    grant.renewals.at(-1)!.fail(new Error('reset'))
    await settle()
    assert.equal(lease.state, 'doubtful')
    assert.equal(doubts, episode)
    await s.clock.advance(700)
    grant.renewals.at(-1)!.ok()
    await settle()
    assert.equal(lease.state, 'held')
  }
})

test('a listener that releases a doubtful lease is the end of it: no renewal is sent for it', async () => {
  const { s, lease, grant } = await hold()
  s.locks.on('doubtful', () => void lease.release())
  await s.clock.advance(0)
  s.clock.stall(6_000)
  await s.clock.advance(0)
  assert.equal(lease.state, 'released')
  assert.equal(grant.releases, 1)
  assert.equal(grant.renewals.length, 0)
})

test('a late answer to an earlier try counts with the deadline of its own request', async () => {
  const { s, lease, grant } = await hold()
  await s.clock.advance(6_000)
  const first = grant.renewals[0]!
  assert.ok(grant.renewals.length >= 2, 'the first try was given up')
  first.ok()
  await settle()
  assert.equal(lease.remaining(), Math.floor(first.sentAt + 9_000 - 90 - 2 - s.clock.now()))
})

test('a definite "not yours" means lost now, and the grant is handed to the driver for tidying up', async () => {
  const { s, lease, grant } = await hold()
  await s.clock.advance(3_000)
  grant.renewals[0]!.gone()
  await settle()
  assert.equal(lease.state, 'lost')
  assert.equal(grant.releases, 1)
  assert.throws(() => lease.assertHeld(), { name: 'LeaseLostError', why: 'taken' })
})

test("the store's own notice means lost now, with its reason", async () => {
  const notice = new AbortController()
  const s = script()
  const acquiring = s.locks.mutex('m').acquire()
  await settle()
  s.asked[0]!.grant({ lost: notice.signal })
  const lease = await acquiring
  const aborted = new Promise((resolve) =>
    lease.signal.addEventListener('abort', () => resolve(lease.signal.reason)),
  )
  notice.abort(new Error('session expired'))
  const reason = await aborted
  assert.ok(reason instanceof LeaseLostError)
  assert.equal(reason.why, 'revoked')
  assert.equal((reason.cause as Error).message, 'session expired')
})

for (const { left, why } of [
  { left: 1, why: 'revoked' },
  { left: 0, why: 'expired' },
])
  test(`a grant that the store drops ${left} ms before its deadline is reported as ${why}`, async () => {
    const notice = new AbortController()
    const { s, lease, grant } = await hold({ ttl: 9_000, autoRenew: false }, { lost: notice.signal })
    await settle()
    s.clock.stall(grant.validUntil - left - s.clock.now())
    grant.validUntil = Number.NEGATIVE_INFINITY
    notice.abort(new Error('gone'))
    assert.throws(() => lease.assertHeld(), { code: 'LEASE_LOST', why })
    assert.equal(lease.signal.reason.why, why)
    assert.equal(lease.signal.reason.cause?.message, left > 0 ? 'gone' : undefined)
  })

test('lost is sticky: a renewal answered after the deadline revives nothing', async () => {
  const { s, lease, grant } = await hold()
  await s.clock.advance(9_000)
  assert.equal(lease.state, 'lost')
  for (const renewal of grant.renewals) renewal.ok()
  await settle()
  assert.equal(lease.state, 'lost')
  assert.equal(await lease.release(), 'lost')
  assert.equal(await lease.release(), 'lost')
})

test('after a blocked event loop the synchronous check says lost although the signal has not fired', async () => {
  const { s, lease } = await hold()
  const { signal } = lease
  await s.clock.advance(0)
  s.clock.stall(9_000)
  assert.equal(signal.aborted, false, 'no timer has run yet')
  assert.throws(() => lease.assertHeld(), LeaseLostError)
  assert.equal(signal.aborted, false, 'a look tells nobody')
  await s.clock.advance(0)
  assert.equal(signal.aborted, true)
})

test('a stall shorter than the ttl is doubtful at once and held after the next renewal', async () => {
  const { s, lease, grant } = await hold()
  s.clock.stall(6_000)
  assert.equal(lease.state, 'doubtful')
  await s.clock.advance(0)
  assert.equal(grant.renewals.length, 1)
  grant.renewals[0]!.ok()
  await settle()
  assert.equal(lease.state, 'held')
})

test('a machine that slept past the deadline has lost the lease at the first check', async () => {
  const { s, lease } = await hold()
  s.clock.sleep(60_000)
  assert.equal(lease.isHeld, false)
  assert.equal(lease.state, 'lost')
})

test('without autoRenew nothing is renewed and the lease ends after one ttl', async () => {
  const { s, lease, grant } = await hold({ ttl: 1_000, autoRenew: false })
  await s.clock.advance(900)
  assert.equal(lease.state, 'held')
  await s.clock.advance(100)
  assert.equal(lease.state, 'lost')
  assert.equal(grant.renewals.length, 0)
})

test('extend renews now, for the ttl asked, and later renewals keep to it', async () => {
  const { s, lease, grant } = await hold({ ttl: 1_000, autoRenew: false })
  const extending = lease.extend(5_000)
  await settle()
  grant.renewals[0]!.ok()
  assert.equal(await extending, 5_000 - 50 - 2)
  await s.clock.advance(4_000)
  assert.equal(lease.isHeld, true)
})

test('an extend that gets no answer rejects and the old deadline stands', async () => {
  const { s, lease } = await hold({ ttl: 1_000, autoRenew: false })
  const end = s.clock.now() + lease.remaining()
  const extending = assert.rejects(lease.extend(), {
    code: 'UNAVAILABLE',
    message: /no answer about \S+ within 167 ms/,
  })
  await s.clock.advance(200)
  await extending
  assert.equal(lease.remaining(), end - s.clock.now())
})

test('an extend to a shorter ttl counts from when it is sent, answered or not', async () => {
  const { s, lease, grant } = await hold({ ttl: 30_000, autoRenew: false })
  const extending = lease.extend(1_000)
  await settle()
  assert.equal(lease.remaining(), 1_000 - 10 - 2)
  grant.renewals[0]!.ok()
  assert.equal(await extending, 1_000 - 10 - 2)
  await s.clock.advance(988)
  assert.equal(lease.state, 'lost')
})

test('an unanswered shorter extend keeps the ttl, and no later renewal counts for more', async () => {
  const { s, lease, grant } = await hold({ ttl: 30_000 })
  const extending = assert.rejects(lease.extend(3_000), { code: 'UNAVAILABLE' })
  await s.clock.advance(600)
  await extending
  await s.clock.advance(1_000)
  const renewal = grant.renewals[1]!
  assert.equal(renewal.ttl, 30_000)
  renewal.ok()
  await settle()
  assert.equal(lease.remaining(), renewal.sentAt + 3_000 - 30 - 2 - s.clock.now())
  grant.renewals[0]!.ok()
  await s.clock.advance(1_000)
  grant.renewals[2]!.ok()
  await settle()
  assert.ok(lease.remaining() > 25_000, 'its late answer ends that')
})

test('a refused extend leaves ttl, deadline and renewals as they were', async () => {
  const { s, lease, grant } = await hold({ ttl: 9_000 })
  const left = lease.remaining()
  const extending = assert.rejects(lease.extend(120_000), RangeError)
  await settle()
  grant.renewals[0]!.fail(new RangeError('too long'))
  await extending
  assert.equal(lease.remaining(), left)
  await s.clock.advance(3_000)
  assert.equal(grant.renewals[1]!.ttl, 9_000)
  grant.renewals[1]!.ok()
  await settle()
  assert.equal(lease.state, 'held')
})

test('renewals are sent one after the other, also those by hand beside an automatic one', async () => {
  const { s, lease, grant } = await hold({ ttl: 9_000 })
  await s.clock.advance(3_000)
  const extending = [lease.extend(20_000), lease.extend(2_000)]
  await settle()
  assert.equal(grant.renewals.length, 1)
  for (const [i, ttl] of [9_000, 20_000, 2_000].entries()) {
    assert.equal(grant.renewals[i]!.ttl, ttl)
    grant.renewals[i]!.ok()
    await settle()
  }
  assert.deepEqual(await Promise.all(extending), [20_000 - 200 - 2, 2_000 - 20 - 2])
})

test('an extend under way is not passed on to another holder', async () => {
  const { s, lease, grant } = await hold({ ttl: 9_000 })
  const next = s.locks.mutex('m').acquire({ ttl: 9_000 })
  const extending = assert.rejects(lease.extend(1_000), { code: 'LEASE_LOST' })
  await settle()
  await lease.release()
  await settle()
  assert.equal(grant.releases, 1)
  grant.renewals[0]!.ok()
  await extending
  s.asked[1]!.grant()
  assert.ok((await next).remaining() > 8_000)
})

test('a reply to a renewal that waited for the machine to wake up is not reported', async () => {
  const { s, lease, grant } = await hold({ ttl: 1_000 })
  const renewed: number[] = []
  s.locks.on('renewed', ({ remaining }) => renewed.push(remaining))
  await s.clock.advance(400)
  const [renewal] = grant.renewals
  assert.ok(renewal)
  s.clock.sleep(5_000)
  renewal.ok()
  await settle()
  assert.deepEqual(renewed, [])
  assert.equal(lease.state, 'lost')
})

test('maxHold ends a healthy lease, which is released only when the store would expire it', async () => {
  const { s, lease, grant } = await hold({ ttl: 9_000, maxHold: 4_000 })
  await s.clock.advance(3_000)
  grant.renewals[0]!.ok()
  await s.clock.advance(1_000)
  assert.equal(lease.state, 'lost')
  assert.throws(() => lease.assertHeld(), { why: 'max-hold' })
  assert.equal(grant.releases, 0, 'its holder has only just been told')
  await s.clock.advance(9_000)
  assert.equal(grant.releases, 1)
  assert.equal(s.clock.pending, 0)
})

test('a thousand leases with one ttl are renewed on a common beat', async () => {
  const s = script()
  const grants: ScriptedGrant[] = []
  for (let i = 0; i < 1_000; i++) {
    const acquiring = s.locks.mutex(`m${i}`).acquire({ ttl: 12_000 })
    await Promise.resolve()
    grants.push(s.asked[i]!.grant())
    await acquiring
    s.clock.stall(3)
  }
  await s.clock.advance(12_000 / 3)
  const moments = new Set(grants.map(({ renewals }) => Math.round(renewals[0]!.sentAt)))
  assert.ok(moments.size <= 5, `renewals left at ${moments.size} moments`)
})

test('the store gets the lock-delay and the holder does not: after a loss the lock stays unavailable for it', async () => {
  const s = script({ traits: { maxLockDelay: 60_000 } })
  const sent = s.clock.now()
  const acquiring = s.locks.mutex('m').acquire({ ttl: 9_000, lockDelay: 5_000, autoRenew: false })
  await settle()
  const { claim } = s.asked[0]!
  assert.equal(claim.ttl, 9_000 + Math.ceil(5_000 / 0.99))
  assert.equal(claim.lockDelay, 5_000)
  const grant = s.asked[0]!.grant()
  const lease = await acquiring
  const end = grant.validUntil - 5_000
  assert.equal(lease.remaining(), end - sent)
  const without = 9_000 - 90 - 2
  assert.ok(lease.remaining() >= without && lease.remaining() < without + 1, 'the delay cost the lease time')
  await s.clock.advance(lease.remaining() - 1)
  assert.equal(lease.isHeld, true)
  await s.clock.advance(1)
  assert.equal(lease.state, 'lost')
  await s.clock.advance(5_000)
  assert.equal(grant.releases, 0, 'it was given back before the store would have let go by itself')
  await s.clock.advance(1_000)
  assert.equal(grant.releases, 1)
})

test('a renewal asks for the lock-delay, too, and `maxHold` leaves it to the lock', async () => {
  const s = script({ traits: { maxLockDelay: 60_000 }, defaults: { lockDelay: 6_000 } })
  const acquiring = s.locks.mutex('m').acquire({ ttl: 9_000, maxHold: 4_000 })
  await settle()
  const grant = s.asked[0]!.grant()
  const lease = await acquiring
  await s.clock.advance(3_000)
  assert.equal(grant.renewals[0]?.ttl, 9_000 + Math.ceil(6_000 / 0.99))
  grant.renewals[0]!.ok()
  await settle()
  assert.ok(lease.remaining() > 8_000 && lease.remaining() <= 9_000)
  await s.clock.advance(1_000)
  assert.equal(lease.state, 'lost')
  const until = grant.validUntil
  assert.ok(until - s.clock.now() >= 6_000)
  await s.clock.advance(until - s.clock.now())
  assert.equal(grant.releases, 0)
})

test('a release frees the lock at once, whatever its lock-delay; so does one after the loss', async () => {
  const s = script({ traits: { maxLockDelay: 60_000 }, defaults: { lockDelay: 60_000 } })
  const first = s.locks.mutex('m').acquire({ ttl: 9_000 })
  await settle()
  const one = s.asked[0]!.grant()
  assert.equal(await (await first).release(), 'released')
  assert.equal(one.releases, 1)
  const second = s.locks.mutex('m').acquire({ ttl: 9_000, autoRenew: false })
  await settle()
  const two = s.asked[1]!.grant()
  const lease = await second
  await s.clock.advance(9_000)
  assert.equal(lease.state, 'lost')
  assert.equal(two.releases, 0)
  assert.equal(await lease.release(), 'lost')
  assert.equal(two.releases, 1)
})

test('a lock is passed on inside the process only to requests with the same lock-delay', async () => {
  const s = script({ traits: { maxLockDelay: 60_000 } })
  const first = s.locks.mutex('m').acquire({ ttl: 9_000, lockDelay: 1_000 })
  await settle()
  let next = 100
  s.asked[0]!.grant({ nextReservedToken: () => ++next })
  const lease = await first
  const same = s.locks.mutex('m').acquire({ ttl: 9_000, lockDelay: 1_000 })
  const other = s.locks.mutex('m').acquire({ ttl: 9_500, lockDelay: 500 })
  await lease.release()
  const heir = await same
  assert.equal(heir.token, 101)
  await heir.release()
  await settle()
  assert.equal(s.asked.length, 2)
  assert.equal(s.asked[1]!.claim.lockDelay, 500)
  s.asked[1]!.grant()
  await (await other).release()
})
