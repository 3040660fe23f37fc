import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

test('sections that do no I/O, passed on from one to the next, let the event loop turn', async () => {
  const locks = createLocks(memory())
  let fired = 0
  const timer = setInterval(() => fired++, 10)
  // As far as it takes: how much is done in a second depends on what else the machine does. Without a turn no timer fires at all.
  const end = performance.now() + 20_000
  let ran = 0
  let inside = 0
  let most = 0
  const loop = async () => {
    while ((fired < 5 || ran <= 100) && performance.now() < end)
      await locks.mutex('x').run(async () => {
        inside++
        most = Math.max(most, inside)
        await undefined
        inside--
        ran++
      })
  }
  await Promise.all([loop(), loop(), loop()])
  clearInterval(timer)
  assert.ok(fired >= 5, `a timer of 10 ms fired ${fired} times while ${ran} sections ran`)
  assert.equal(most, 1)
  assert.ok(ran > 100)
  await locks.close()
})

test('a caller that gives up or closes while the loop turns leaves no waiter behind', async () => {
  const store = memory()
  const [locks, others] = [createLocks(store), createLocks(store)]
  const end = performance.now() + 300
  const loop = async () => {
    while (performance.now() < end)
      await locks
        .mutex('x')
        .acquire({ wait: 1, ttl: 30_000 })
        .then(
          async (lease) => {
            for (let i = 0; i < 2_000; i++) await undefined
            await lease.release()
          },
          () => undefined,
        )
  }
  await Promise.all([loop(), loop(), loop(), loop()])
  await (await others.mutex('x').acquire({ wait: 2_000 })).release()
  const [one, two] = [locks.mutex('x').acquire(), locks.mutex('x').acquire()]
  const second = two.then(
    (lease) => lease.state,
    (error: { code?: unknown }) => error.code,
  )
  const lease = await one
  for (const until = performance.now() + 20; performance.now() < until; );
  const released = lease.release()
  await locks.close()
  await released
  assert.match(String(await second), /^(CLOSED|held|released)$/)
  await (await others.mutex('x').acquire({ wait: 2_000 })).release()
  await others.close()
})
