// What a lease reports to its holder: how long it is held, how often it was entered, and how it ended.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { LeaseLostError } from '../../src/core/errors.js'
import type { Lease } from '../../src/core/lease.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type Script, type ScriptedGrant, script } from '../support/scripted-driver.js'

after(leakCheck)

async function taken(s: Script, ttl = 9_000): Promise<{ lease: Lease; grant: ScriptedGrant }> {
  const acquiring = s.locks.mutex('m').acquire({ ttl })
  await settle()
  const grant = s.asked.at(-1)!.grant()
  return { lease: await acquiring, grant }
}

test('assertHeld asks for as much time as it is given, and says how much there is', async () => {
  const s = script()
  const { lease } = await taken(s)
  const left = lease.remaining()
  lease.assertHeld()
  lease.assertHeld(left)
  assert.throws(
    () => lease.assertHeld(left + 1),
    (error) =>
      error instanceof LeaseLostError &&
      error.token === lease.token &&
      new RegExp(`"m" has ${Math.floor(left)} ms left, asked for ${left + 1} ms; extend`).test(
        String(error.cause),
      ),
  )
  assert.equal(lease.state, 'held', 'to ask for too much loses nothing')
})

test('a nonsensical time is refused, whether the lease is held or not', async () => {
  const s = script()
  const { lease } = await taken(s)
  assert.throws(() => lease.assertHeld(-1), /minMs/)
  assert.throws(() => lease.assertHeld(Number.NaN), /minMs/)
  await assert.rejects(lease.extend(-1), /ttl/)
  await lease.release()
  assert.throws(() => lease.assertHeld(-1), /minMs/)
})

test('after its deadline it is lost, even before any timer has run', async () => {
  const s = script()
  const { lease } = await taken(s)
  s.clock.stall(lease.remaining())
  assert.equal(lease.isHeld, false)
  assert.equal(lease.state, 'lost')
  assert.equal(lease.remaining(), 0)
  assert.throws(() => lease.assertHeld(), LeaseLostError)
})

test('release tells the first caller that it was released, and later ones that it already was', async () => {
  const s = script()
  const { lease, grant } = await taken(s)
  assert.deepEqual(await Promise.all([lease.release(), lease.release()]), ['released', 'already-released'])
  assert.equal(await lease.release(), 'already-released')
  assert.equal(grant.releases, 1)
  assert.deepEqual([lease.state, lease.isHeld, lease.remaining(), lease.holdCount], ['released', false, 0, 0])
  assert.equal(lease.signal.aborted, false, 'a release is no loss')
})

test('release of a lost lease says each time that it was lost', async () => {
  const s = script()
  const { lease } = await taken(s)
  s.clock.stall(10_000)
  assert.equal(lease.state, 'lost')
  assert.equal(await lease.release(), 'lost')
  assert.equal(await lease.release(), 'lost')
  assert.equal(lease.state, 'lost')
})

test('a released lease cannot be extended, and `await using` releases it', async () => {
  const s = script()
  const { lease, grant } = await taken(s)
  await lease[Symbol.asyncDispose]()
  assert.equal(grant.releases, 1)
  await assert.rejects(lease.extend(), LeaseLostError)
  assert.equal(grant.renewals.length, 0)
})
