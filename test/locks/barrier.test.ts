import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Engine } from '../../src/core/engine.js'
import { locksOver } from '../../src/create-locks.js'
import { memory } from '../../src/drivers/memory/index.js'
import { fakeClock } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

const hour = 3_600_000

test('a barrier that everybody has left is forgotten after a day, one that somebody is inside of is not', async () => {
  const clock = fakeClock()
  let ids = 0
  const env = { clock, id: () => String(++ids).padStart(32, '0'), random: () => 0.5, by: 'test:1' }
  const locks = locksOver<'exclusive' | 'shared' | 'cells'>(new Engine(memory(), undefined, env))
  const barrier = locks.barrier('b', 1)
  const stays = await barrier.enter()
  await clock.advance(30 * hour)
  assert.deepEqual([stays.round, stays.lease.isHeld], [1, true])
  await stays.leave()
  await clock.advance(20 * hour)
  const again = await barrier.enter()
  assert.equal(again.round, 2)
  await again.leave()
  await clock.advance(25 * hour)
  const anew = await barrier.enter()
  assert.equal(anew.round, 1)
  await anew.leave()
  await locks.close()
})
