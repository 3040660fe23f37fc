import assert from 'node:assert/strict'
import { once } from 'node:events'
import { acquireInChild, startUp } from './child-process.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { expiredWait, pause } from './test-context.js'

const closed = { code: 'CLOSED' }
/** Locks, releases and driver each have 5 s to end, and the machine may be busy. In ms. */
const maxClose = 20_000

export function closing(it: It, { make, traits, childClient }: Fixture): void {
  it('releases what is held, so that others can acquire it', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire()
    const next = b.locks.mutex(name).acquire()
    await context.queued(b, name, 1)
    await a.locks.close()
    assert.equal(lease.isHeld, false)
    await (await context.settlesInTime('the waiter', next)).release()
  })

  it('rejects waiters and leaves no queue entry', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await b.locks.mutex(name).acquire()
    const waits = Array.from({ length: 3 }, () => assert.rejects(a.locks.mutex(name).acquire(), closed))
    await context.queued(b, name, 1)
    const closing = performance.now()
    await a.locks.close()
    const took = Math.round(performance.now() - closing)
    await Promise.all(waits)
    await context
      .until('the place to be gone', async () => (await context.waiters(b, name)) === 0)
      .catch(async (error: Error) => {
        const left = JSON.stringify(await b.locks.inspect(name))
        throw new Error(`${error.message}; close() took ${took} ms and left ${left}`)
      })
    await lease.release()
  })

  it('waits for a release in flight, even if the lock is requested at that moment', async (context) => {
    const b = context.client()
    await context.connected(b)
    for (let round = 0; round < 8; round++) {
      const a = context.client()
      const name = context.name()
      const lease = await a.locks.mutex(name).acquire()
      const next = [b.locks.mutex(name).acquire()]
      if (round % 2 === 0) await context.queued(b, name, 1)
      const released = lease.release()
      const closing = a.locks.close()
      assert.equal(await released, 'released')
      await closing
      for (const lease of await context.settlesInTime('the waiter', Promise.all(next))) await lease.release()
    }
  })

  it('retries a release that the store did not answer, so that no waiter has to wait for the ttl', async (context) => {
    const [a, b] = [context.client(), context.client()]
    await context.connected(a, b)
    const name = context.name()
    const ttl = Math.max(context.ttl, 12_000)
    const lease = await a.locks.mutex(name).acquire({ ttl })
    const granted = performance.now()
    await context.cut(a)
    const released = lease.release()
    const outcome = await context.settlesInTime('the release to answer', released, ttl + context.timeout)
    assert.match(outcome, /^(unknown|lost)$/)
    await context.heal()
    await Promise.all([a.locks.close(), a.locks.close()])
    await (await b.locks.mutex(name).acquire({ wait: ttl + context.timeout })).release()
    const took = performance.now() - granted
    assert.ok(took < 0.8 * ttl, `the lock was free after ${Math.round(took)} ms of a ttl of ${ttl} ms`)
  })

  it('repeats its own release once, when the store answers again meanwhile', async (context) => {
    const [a, b] = [context.client(), context.client()]
    await context.connected(a, b)
    const name = context.name()
    const ttl = Math.max(context.ttl, 12_000)
    await a.locks.mutex(name).acquire({ ttl })
    const granted = performance.now()
    await context.cut(a)
    const closing = a.locks.close()
    await pause(200)
    await context.heal()
    await context.settlesInTime('the end', closing, maxClose)
    await (await b.locks.mutex(name).acquire({ wait: ttl + context.timeout })).release()
    const took = performance.now() - granted
    assert.ok(took < 0.8 * ttl, `the lock was free after ${Math.round(took)} ms of a ttl of ${ttl} ms`)
  })

  it('ends in time when the store gives no answer, and so does a release beside it', async (context) => {
    const client = context.client()
    await context.connected(client)
    const [one, two] = [context.name(), context.name()]
    const { ttl } = context
    const lease = await client.locks.mutex(one).acquire({ ttl })
    await client.locks.mutex(two).acquire({ ttl })
    await context.cut(client)
    const released = lease.release()
    const closing = client.locks.close()
    const outcome = await context.settlesInTime('the release to answer', released, ttl + context.timeout)
    assert.match(outcome, /^(unknown|lost)$/)
    await context.settlesInTime('the end', closing, maxClose)
  })

  it('refuses every later call, and may be called again', async (context) => {
    const { locks } = context.client()
    const lock = locks.mutex(context.name())
    await lock.run(() => undefined)
    await Promise.all([locks.close(), locks.close()])
    await locks.close()
    await assert.rejects(lock.acquire(), closed)
    await assert.rejects(lock.tryAcquire(), closed)
    await assert.rejects(async () => locks.mutex('x'), closed)
    await assert.rejects(async () => locks.inspect('x'), closed)
  })

  it('harms no other client', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    await a.locks.mutex(context.name()).run(() => undefined)
    const lease = await b.locks.mutex(name).acquire()
    await a.locks.close()
    assert.equal(lease.isHeld, true)
    await lease.extend()
    await b.locks.mutex(context.name()).run(() => undefined)
    await lease.release()
  })

  it('of a client that was never used does nothing', async (context) => {
    const client = context.client()
    client.locks.mutex('x')
    await context.settlesInTime('the end', client.locks.close())
    assert.equal(client.asked(), 0)
  })

  it('leaves nothing that keeps the process alive', async (context) => {
    const use = async () => {
      const client = context.client()
      const name = context.name()
      const lease = await client.locks.mutex(name).acquire()
      const gone = client.locks.mutex(name).acquire({ wait: 10 })
      await assert.rejects(gone, expiredWait)
      await lease.release()
      await client.locks.close()
    }
    // Whatever the store's client opens only once is open before the count starts.
    await use()
    await whenSettled(context)
    const before = resources()
    for (let i = 0; i < 5; i++) await use()
    const rest = () => resources() - before
    await context.until('what was opened to be closed', () => rest() <= 0).catch(() => undefined)
    assert.ok(rest() <= 0, `left: ${process.getActiveResourcesInfo().join(', ')}`)
  })

  if (traits.shared && childClient !== undefined) {
    it('is not needed by a process that only waits: the wait keeps it alive, without an end, too', async (context) => {
      const client = context.client()
      const name = context.name()
      const lease = await client.locks.mutex(name).acquire()
      const child = acquireInChild(context, childClient, name, context.ttl, 'alone')
      await context.queued(client, name, 1, startUp)
      // A process that nothing keeps alive ends before this timer fires.
      await Promise.race([pause(300), once(child.process, 'exit')])
      assert.equal(child.process.exitCode, null, 'it ended although it waited')
      await lease.release()
      await child.received('granted')
    })
  }

  it('makes no use of the store before the first request', async (context) => {
    const before = resources()
    const factories = Array.from({ length: 5 }, () => make())
    assert.equal(factories.length, 5)
    const client = context.client()
    client.locks.mutex('x')
    assert.equal(resources(), before)
  })
}

const resources = () => process.getActiveResourcesInfo().filter((kind) => kind !== 'Immediate').length

/** Sockets of previously closed clients take a moment to disappear. */
async function whenSettled(context: import('./test-context.js').TestContext): Promise<void> {
  let last = -1
  await context.until('resources to settle', async () => {
    const now = resources()
    const same = now === last
    last = now
    await new Promise((resolve) => setTimeout(resolve, 50))
    return same
  })
}
