// Locks of different stores as one lease: all or nothing, in one order for everybody.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { memory } from 'holdfast/memory'
import { leakCheck } from '../support/leaks.js'

const directory = mkdtempSync(join(tmpdir(), 'holdfast-stores-'))
const shared = memory()
const here = [createLocks(shared), createLocks(local({ directory }))] as const
const there = [createLocks(shared), createLocks(local({ directory }))] as const

test('two callers that name the locks of two stores in opposite orders do not deadlock', async () => {
  let inside = 0
  let most = 0
  const enter = async ([one, two]: typeof here, turned: boolean) => {
    const parts = [one.mutex('b'), two.mutex('a'), two.mutex('b')]
    await one.all(turned ? parts.reverse() : parts).run(async (lease) => {
      most = Math.max(most, ++inside)
      await new Promise(setImmediate)
      lease.assertHeld()
      inside--
    })
  }
  await Promise.all(Array.from({ length: 20 }, (_, i) => enter(i % 2 ? here : there, i % 4 > 1)))
  assert.equal(most, 1)
})

test('when one store has not got its lock free, nothing is kept in the other', async () => {
  const [one, two] = here
  const blocker = await there[1].mutex('b').acquire()
  await assert.rejects(one.all([one.mutex('a'), two.mutex('b')]).acquire({ wait: 80 }), {
    code: 'ACQUIRE_TIMEOUT',
  })
  assert.equal(await one.all([one.mutex('a'), two.mutex('b')]).tryAcquire(), undefined)
  const lease = await there[0].mutex('a').tryAcquire()
  assert.ok(lease !== undefined, 'the other store still has it')
  await lease.release()
  await blocker.release()
})

test('a lock that is lost in one store is the loss of all', async () => {
  const [one, two] = here
  const lease = await one.all([one.mutex('a'), two.mutex('b')]).acquire()
  await there[0].forceRelease('a')
  assert.equal(lease.isHeld, false)
  assert.throws(() => lease.assertHeld(), { code: 'LEASE_LOST' })
  assert.equal(await lease.release(), 'lost')
  await (await there[1].mutex('b').acquire({ wait: 5_000 })).release()
})

after(async () => {
  for (const locks of [...here, ...there]) await locks.close()
  rmSync(directory, { recursive: true, force: true })
})
after(leakCheck)
