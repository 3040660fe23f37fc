// A lease that comes from another process while this one drops the queue of its name: it is idle by then, and there are many others.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { memory } from '../../src/drivers/memory/index.js'
import { leakCheck } from '../support/leaks.js'

test('close() gives back a lease that was adopted while the idle queue of its name was dropped', async () => {
  const store = memory()
  const first = createLocks(store)
  let carriedOut = () => {}
  let answer = () => {}
  const claimed = new Promise<void>((resolve) => {
    carriedOut = resolve
  })
  const answered = new Promise<void>((resolve) => {
    answer = resolve
  })
  const lease = await first.mutex('handed over').acquire({ ttl: 60_000 })
  const { attempt } = (await first.inspect('handed over')).holders[0] ?? {}
  const second: Locks = createLocks((env) => {
    const driver = store(env)
    return {
      ...driver,
      // The answer about the adopted hold takes its time.
      async acquire(claim, wait) {
        const grant = await driver.acquire(claim, wait)
        if (claim.attempt !== attempt) return grant
        carriedOut()
        await answered
        return grant
      },
    }
  })
  const ticket = await first.export(lease)
  // As many names as a process may have in use before it drops what is idle.
  for (let i = 0; i < 300; i++) await second.mutex(`other ${i}`).acquire({ ttl: 60_000 })
  const adopting = second.adopt(ticket)
  await claimed
  assert.equal(await second.mutex('handed over').tryAcquire(), undefined)
  answer()
  assert.equal((await adopting).isHeld, true)
  await second.close()
  assert.deepEqual((await first.inspect('handed over')).holders, [])
  await first.close()
})

after(leakCheck)
