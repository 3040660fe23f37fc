import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'

export function localQueue(it: It, { traits }: Fixture): void {
  it('cost the store one waiter, and all are served', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await b.locks.mutex(name).acquire()
    let inside = 0
    let served = 0
    const all = Promise.all(
      Array.from({ length: 1_000 }, () =>
        a.locks.mutex(name).run(
          async () => {
            assert.equal(++inside, 1)
            await Promise.resolve()
            inside--
            served++
          },
          { wait: Number.POSITIVE_INFINITY },
        ),
      ),
    )
    await context.queued(b, name, 1)
    assert.equal(await context.waiters(b, name), 1)
    assert.equal(a.asked(), 1)
    await lease.release()
    await all
    assert.equal(served, 1_000)
  })

  it('take over the queue entry of a request that gives up', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await b.locks.mutex(name).acquire()
    const stop = new AbortController()
    const first = assert.rejects(a.locks.mutex(name).acquire({ signal: stop.signal }), { message: 'gone' })
    await context.queued(b, name, 1)
    const second = a.locks.mutex(name).acquire()
    stop.abort(new Error('gone'))
    await first
    await lease.release()
    await (await context.settlesInTime('the second request', second)).release()
  })

  it('are refused beyond maxPending before anything is sent, until a waiting request has ended', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const held = await b.locks.mutex(name).acquire()
    const lock = a.locks.mutex(name, { maxPending: 2, wait: Number.POSITIVE_INFINITY })
    const tooMany = { name: 'TooManyWaitersError', code: 'TOO_MANY_WAITERS', lock: name, maxPending: 2 }
    const stop = new AbortController()
    const [first, gone] = [lock.acquire(), lock.acquire({ signal: stop.signal })]
    await context.queued(b, name, 1)
    const asked = a.asked()
    await assert.rejects(lock.acquire(), tooMany)
    await assert.rejects(
      lock.run(() => assert.fail('it ran')),
      tooMany,
    )
    const shared = traits.modes.includes('shared')
    if (shared) await assert.rejects(a.locks.readWrite(name).read.acquire({ maxPending: 2 }), tooMany)
    assert.equal(await lock.tryAcquire(), undefined, 'a single attempt does not wait, and is not refused')
    assert.equal(a.asked(), asked, 'something was sent')
    stop.abort(new Error('gone'))
    await assert.rejects(gone, { message: 'gone' })
    const second = lock.acquire()
    const third = lock.acquire({ maxPending: 3 })
    await assert.rejects(lock.acquire(), tooMany)
    await held.release()
    for (const lease of [first, second, third])
      await (await context.settlesInTime('its turn', lease)).release()
    await (await lock.acquire({ maxPending: 1 })).release()
  })

  it('each keep their own deadline', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await b.locks.mutex(name).acquire()
    const timedOut = { code: 'ACQUIRE_TIMEOUT' }
    await context.connected(a)
    const patient = a.locks.mutex(name).acquire()
    await context.queued(b, name, 1)
    const waits = [60, 100, 200].map((wait) =>
      assert.rejects(a.locks.mutex(name).acquire({ wait }), timedOut),
    )
    await context.settlesInTime('three deadlines', Promise.all(waits))
    await lease.release()
    await (await context.settlesInTime('the patient one', patient)).release()
  })
}
