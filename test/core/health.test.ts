import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError } from '../../src/index.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'

after(leakCheck)

test('a grant that comes after the timeout is released', async () => {
  const s = script()
  const asking = s.locks.health({ timeout: 100 })
  await settle()
  await s.clock.advance(100)
  const told = await asking
  assert.deepEqual([told.status, told.took, told.error?.code], ['unavailable', 100, 'UNAVAILABLE'])
  assert.equal(s.asked[0]!.wait.ended, true)
  const late = s.asked[0]!.grant()
  await settle()
  assert.equal(late.releases, 1)
  await s.locks.close()
})

test('calls that come while a probe is under way send nothing, and end after their own timeout', async () => {
  const s = script()
  const first = s.locks.health({ timeout: 1_000 })
  await settle()
  const second = s.locks.health({ timeout: 100 })
  await s.clock.advance(100)
  assert.equal((await second).status, 'unavailable')
  s.asked[0]!.grant()
  assert.equal((await first).status, 'ok')
  assert.equal(s.asked.length, 1)
  await s.locks.close()
})

test('a store in quarantine, one that refuses, and one that says busy are distinguished', async () => {
  const s = script()
  const barred = s.locks.health()
  await settle()
  const error = new BackendError('scripted', 'quarantine until noon', { quarantined: true })
  s.asked[0]!.wait.report?.({ error })
  s.asked[0]!.nothing()
  assert.deepEqual([(await barred).status, (await barred).error], ['quarantine', error])
  const refused = s.locks.health()
  await settle()
  s.asked[1]!.fail(new BackendError('scripted', 'no such user'))
  assert.equal((await refused).status, 'unavailable')
  const busy = s.locks.health()
  await settle()
  s.asked[2]!.nothing()
  assert.equal((await busy).status, 'ok')
  await s.locks.close()
})

test('the probe reads where the driver has read locks, is short, and takes no defaults of a lock', async () => {
  const s = script({ defaults: { ttl: 60_000, fair: true } })
  const asking = s.locks.health()
  await settle()
  const { name, mode, ttl, fair } = s.asked[0]!.claim
  assert.deepEqual(
    { name, mode: mode.kind, ttl, fair },
    { name: 'holdfast:health', mode: 'shared', ttl: 5_000, fair: false },
  )
  s.asked[0]!.grant()
  await asking
  await s.locks.close()
})

test('bad options are refused before any request', async () => {
  const s = script()
  await assert.rejects(s.locks.health({ timeout: 0 }), RangeError)
  await assert.rejects(
    s.locks.ping({ timout: 5 } as never),
    /ping\(\): unknown option "timout"; did you mean timeout/,
  )
  await assert.rejects(s.locks.health(5 as never), /options must be an object such as \{ timeout: 5 \}/)
  assert.equal(s.asked.length, 0)
  await s.locks.close()
})
