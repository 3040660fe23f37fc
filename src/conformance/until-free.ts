import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { expiredWait } from './test-context.js'

export function untilFree(it: It, { traits }: Fixture): void {
  const forEver = { wait: Number.POSITIVE_INFINITY }

  it('ends when the holder has released, and holds nothing then', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    await b.locks.mutex(name).waitUntilFree()
    const lease = await a.locks.mutex(name).acquire()
    let ended = 0
    const waits = [1, 2, 3].map(async () => {
      await b.locks.mutex(name).waitUntilFree(forEver)
      ended++
    })
    await context.queued(a, name, 1)
    assert.equal(ended, 0)
    lease.assertHeld()
    await lease.release()
    await context.settlesInTime('all who wait until it is free', Promise.all(waits))
    await context.assertFree(a, name)
    const { holders } = await a.locks.inspect(name)
    assert.deepEqual(
      holders.filter(({ expiresIn }) => expiresIn > 0),
      [],
    )
  })

  it('comes after earlier waiters', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire()
    const next = b.locks.mutex(name).acquire(forEver)
    await context.queued(a, name, 1)
    let isFree = false
    const free = b.locks
      .mutex(name)
      .waitUntilFree(forEver)
      .then(() => {
        isFree = true
      })
    await lease.release()
    const second = await context.settlesInTime('the one before', next)
    await a.locks.inspect(name)
    assert.equal(isFree, false)
    await second.release()
    await context.settlesInTime('the lock to be free', free)
  })

  it('gives up after `wait`, looks once with 0, and ends with the reason of its signal', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    await context.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ note: 'nightly report' })
    const lock = b.locks.mutex(name)
    await assert.rejects(lock.waitUntilFree({ wait: 0 }), { code: 'ACQUIRE_TIMEOUT' })
    await assert.rejects(lock.waitUntilFree({ wait: 1_500 }), expiredWait)
    const controller = new AbortController()
    const gone = lock.waitUntilFree({ ...forEver, signal: controller.signal })
    await context.queued(a, name, 1)
    controller.abort(new Error('gone'))
    await assert.rejects(gone, { message: 'gone' })
    await assert.rejects(lock.waitUntilFree({ ttl: 5_000 } as object), /unknown option "ttl"/)
    await assert.rejects(lock.waitUntilFree(5 as never), /options must be an object such as \{ wait: 5 \}/)
    await lease.release()
    await lock.waitUntilFree({ wait: context.timeout })
  })

  it('refuses to wait for what this async context holds itself', async (context) => {
    const lock = context.client().locks.mutex(context.name())
    await lock.run(() => assert.rejects(lock.waitUntilFree(), { code: 'DEADLOCK' }))
  })

  it('waits for several locks together', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const [one, other] = [context.name(), context.name()]
    const lease = await a.locks.mutex(one).acquire()
    const free = b.locks.all([b.locks.mutex(one), b.locks.mutex(other)]).waitUntilFree(forEver)
    await context.queued(a, one, 1)
    await lease.release()
    await context.settlesInTime('both to be free', free)
    for (const name of [one, other]) await context.assertFree(a, name)
  })

  if (traits.modes.includes('shared'))
    it('waits for writers alone on the side of readers', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const reader = await a.locks.readWrite(name).read.acquire()
      await b.locks.readWrite(name).read.waitUntilFree({ wait: context.timeout })
      const free = b.locks.readWrite(name).write.waitUntilFree(forEver)
      await context.queued(a, name, 1)
      await reader.release()
      await context.settlesInTime('nobody to read', free)
    })

  if (traits.modes.includes('permits'))
    it('waits for one permit of a semaphore', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const semaphore = a.locks.semaphore(name, { permits: 2 })
      const [first, second] = [await semaphore.acquire(), await semaphore.acquire()]
      const free = b.locks.semaphore(name, { permits: 2 }).waitUntilFree(forEver)
      await context.queued(a, name, 1)
      await first.release()
      await context.settlesInTime('a permit to be free', free)
      await second.release()
    })
}
