// A process that is paused in the middle of a single attempt, until its session is no longer proven: the attempt reports that it could not
// tell, never "not free", and leaves nothing behind.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { systemEnv } from '../../src/core/engine.js'
import { createLocks } from '../../src/create-locks.js'
import { consul } from '../../src/drivers/consul/index.js'
import { locksOf, placesOf } from '../drivers/consul/support/scene.js'
import { startGarbling } from '../drivers/support/garbling.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'

const ttl = 20_000

/** Locks of a process that can be paused. */
function stallable(t: TestContext, url: string) {
  const { clock } = systemEnv()
  let slept = 0
  const stalled = {
    ...clock,
    now: () => clock.now() + slept,
    at: (time: number, fn: () => void, options?: { readonly ref?: boolean }) =>
      clock.at(time - slept, fn, options),
  }
  const driver = consul({ url, requestTimeout: 30_000 })
  const locks = createLocks((env) => driver({ ...env, clock: stalled }), { ttl })
  t.after(() => locks.close())
  const stall = (ms: number) => {
    slept += ms
  }
  return { locks, stall }
}

for (const how of ['read', 'write'] as const) {
  test(`a try for a free lock to ${how} whose process is paused meanwhile is not told that it is taken`, async (t) => {
    await using server = await startConsul()
    const between = await startGarbling(server.url)
    t.after(() => between.stop())
    const { locks, stall } = stallable(t, between.url)
    const other = locksOf(t, server.url).locks
    await locks.mutex('warm').run(() => undefined)
    // Nothing asks for the session now, which lasts a tenth more than the ttl.
    stall(ttl * 0.6)
    let stalls = 0
    between.garble((path, text) => {
      // The read that would prove the session; not the look at what the attempt may have left.
      if (path.includes('consistent') && !text.includes('holdfast/a/')) return 'nothing that proves it'
      if (path.includes('/txn') && stalls++ === 0) stall(ttl * 0.6)
      return text
    })
    const asked = locks.readWrite('a')[how].tryAcquire()
    await assert.rejects(asked, { name: 'BackendError', message: /its session ended/ })
    assert.ok(stalls > 0)
    assert.deepEqual(await placesOf(server, 'a'), [])
    const next = await other.mutex('a').tryAcquire()
    assert.ok(next, 'something was left behind')
    assert.equal(await next.release(), 'released')
    between.garble((_path, text) => text)
    const again = await locks.readWrite('a')[how].tryAcquire()
    assert.ok(again)
    assert.equal(await again.release(), 'released')
  })
}

after(leakCheck)
