import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { expiredWait, pause } from './test-context.js'

export function leaks(it: It, { traits }: Fixture): void {
  it('are not caused by many acquisitions with one long-lived signal', async (context) => {
    const client = context.client()
    const lock = client.locks.mutex(context.name())
    const { signal } = new AbortController()
    let most = 0
    // A listener that stays is seen at the next acquisition. A thousand cost an in-process store nothing, and any other store seconds.
    const count = traits.shared ? 100 : 1_000
    for (let i = 0; i < count; i++) {
      const lease = await lock.acquire({ signal })
      most = Math.max(most, listeners(signal))
      await lease.release()
    }
    assert.ok(most <= 1, `${most} listeners on the signal of one acquisition`)
    assert.equal(listeners(signal), 0)
  })

  it('are not caused by waits, however they end', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lock = a.locks.mutex(name)
    await context.connected(a, b)
    const { signal } = new AbortController()
    const lease = await b.locks.mutex(name).acquire()
    for (let i = 0; i < 10; i++) {
      await assert.rejects(lock.acquire({ signal, wait: 3 }), expiredWait)
      assert.equal(await lock.tryAcquire({ signal }), undefined)
      const own = new AbortController()
      const gone = assert.rejects(lock.acquire({ signal: own.signal }), { message: 'gone' })
      if (i % 2 === 0) await pause(2)
      own.abort(new Error('gone'))
      await gone
      assert.equal(listeners(own.signal), 0)
    }
    assert.equal(listeners(signal), 0)
    await lease.release()
  })

  it('are not caused by failed renewals: none becomes an unhandled rejection', async (context) => {
    const client = context.client()
    const unhandled: unknown[] = []
    const note = (reason: unknown) => void unhandled.push(reason)
    process.on('unhandledRejection', note)
    context.cleanup(() => void process.off('unhandledRejection', note))
    const leases = await Promise.all(
      Array.from({ length: 5 }, () => client.locks.mutex(context.name()).acquire({ ttl: context.ttl })),
    )
    await context.cut(client)
    await context.until(
      'the losses',
      () => leases.every((lease) => !lease.isHeld),
      2 * context.ttl + context.timeout,
    )
    await context.heal()
    await pause(50)
    assert.deepEqual(unhandled, [])
    assert.ok(leases.every((lease) => lease.signal.aborted))
  })

  it('are not caused by listeners: each is removed again', async (context) => {
    const client = context.client()
    let calls = 0
    const stop = client.locks.on('granted', () => calls++)
    await client.locks.mutex(context.name()).run(() => undefined)
    stop()
    await client.locks.mutex(context.name()).run(() => undefined)
    assert.equal(calls, 1)
  })
}

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length
