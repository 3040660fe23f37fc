import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Engine } from '../../src/core/engine.js'
import { locksOver } from '../../src/create-locks.js'
import { memory } from '../../src/drivers/memory/index.js'
import { fakeClock } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

const hour = 3_600_000

function timed() {
  const clock = fakeClock()
  let ids = 0
  const env = { clock, id: () => String(++ids).padStart(32, '0'), random: () => 0.5, client: 'test:1' }
  const locks = locksOver<'exclusive' | 'shared' | 'cells'>(new Engine(memory(), undefined, env))
  return { clock, locks }
}

test('maxHold and autoRenew: false count from when the barrier opens, not while a participant waits for the others', async () => {
  const { clock, locks } = timed()
  const barrier = locks.barrier('b', 2)
  const terms = { wait: 600_000, ttl: 1_000, autoRenew: false } as const
  for (const [more, lasts] of [
    [{ maxHold: 800 }, 800],
    [{}, 1_000],
  ] as const) {
    const waits = barrier.enter({ ...terms, ...more })
    waits.catch(() => undefined)
    await clock.advance(60_000)
    const other = barrier.enter()
    await clock.advance(1)
    const [first, second] = [await waits, await other]
    await clock.advance(lasts - 50)
    assert.equal(first.lease.state, 'held')
    await clock.advance(60)
    assert.equal(first.lease.state, 'lost')
    const left = second.leave()
    await clock.advance(5_000)
    assert.equal(await left, true)
  }
  await locks.close()
})

test('an enter with wrong options is refused before anything is sent', async () => {
  const { locks } = timed()
  const barrier = locks.barrier('b', 1)
  await assert.rejects(barrier.enter({ maxHold: -1 }), { name: 'RangeError', message: /maxHold/ })
  await assert.rejects(barrier.enter({ autoRenew: 1 as unknown as boolean }), { message: /autoRenew/ })
  await locks.close()
})

test('a barrier that everybody has left is forgotten after a day, one with somebody inside is not', async () => {
  const { clock, locks } = timed()
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
