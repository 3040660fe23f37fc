// A lease that comes from another process while this one drops the queue of its name: it is idle by then, and there are many others.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { memory } from '../../src/drivers/memory/index.js'
import { leakCheck } from '../support/leaks.js'

test('close() releases a lease that was adopted while the idle queue of its name was dropped', async () => {
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

test('a fresh hold that adopt() was granted instead is released although the reply to its release is lost', async () => {
  const store = memory()
  const first = createLocks(store)
  const lease = await first.mutex('ended').acquire({ ttl: 60_000 })
  const { attempt } = (await first.inspect('ended')).holders[0] ?? {}
  let releases = 0
  const second: Locks = createLocks((env) => {
    const driver = store(env)
    return {
      ...driver,
      async acquire(claim, wait) {
        const grant = await driver.acquire(claim, wait)
        if (grant === undefined || claim.attempt !== attempt) return grant
        return {
          // As of a store where the hold had ended, and the claim was granted another.
          token: grant.token + 1_000,
          validUntil: grant.validUntil,
          renew: (ttl, signal) => grant.renew(ttl, signal),
          release() {
            releases += 1
            return releases === 1 ? Promise.reject(new Error('the connection was lost')) : grant.release()
          },
        }
      },
    }
  })
  await assert.rejects(second.adopt(await first.export(lease)), { code: 'LEASE_LOST' })
  await second.close()
  assert.equal(releases, 2)
  assert.deepEqual((await first.inspect('ended')).holders, [])
  await first.close()
})

after(leakCheck)
