import assert from 'node:assert/strict'
import { once } from 'node:events'
import { acquireInChild, startUp } from './child-process.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { inVain, pause } from './test-context.js'

const closed = { code: 'CLOSED' }
/** Locks, releases and driver each have 5 s to end, and the machine may be busy. In ms. */
const longestClose = 20_000

export function closing(it: It, { make, traits, childClient }: Fixture): void {
  it('gives back what is held, so that others can have it', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await a.locks.mutex(name).acquire()
    const next = b.locks.mutex(name).acquire()
    await stage.queued(b, name, 1)
    await a.locks.close()
    assert.equal(lease.isHeld, false)
    await (await stage.settlesInTime('the waiter', next)).release()
  })

  it('rejects who waits and leaves no place in line', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await b.locks.mutex(name).acquire()
    const waits = Array.from({ length: 3 }, () => assert.rejects(a.locks.mutex(name).acquire(), closed))
    await stage.queued(b, name, 1)
    const closing = performance.now()
    await a.locks.close()
    const took = Math.round(performance.now() - closing)
    await Promise.all(waits)
    await stage
      .until('the place to be gone', async () => (await stage.waiters(b, name)) === 0)
      .catch(async (error: Error) => {
        const left = JSON.stringify(await b.locks.inspect(name))
        throw new Error(`${error.message}; close() took ${took} ms and left ${left}`)
      })
    await lease.release()
  })

  it('waits for a release on its way, whoever asks for the lock in that moment', async (stage) => {
    const b = stage.client()
    await stage.connected(b)
    for (let round = 0; round < 8; round++) {
      const a = stage.client()
      const name = stage.name()
      const lease = await a.locks.mutex(name).acquire()
      const next = [b.locks.mutex(name).acquire()]
      if (round % 2 === 0) await stage.queued(b, name, 1)
      const released = lease.release()
      const closing = a.locks.close()
      assert.equal(await released, 'released')
      await closing
      for (const lease of await stage.settlesInTime('the waiter', Promise.all(next))) await lease.release()
    }
  })

  it('repeats a release that the store did not answer, so that nobody waits for the ttl', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    await stage.connected(a, b)
    const name = stage.name()
    const ttl = Math.max(stage.ttl, 12_000)
    const lease = await a.locks.mutex(name).acquire({ ttl })
    const granted = performance.now()
    await stage.cut(a)
    const released = lease.release()
    const outcome = await stage.settlesInTime('the release to answer', released, ttl + stage.timeout)
    assert.match(outcome, /^(unknown|lost)$/)
    await stage.heal()
    await Promise.all([a.locks.close(), a.locks.close()])
    await (await b.locks.mutex(name).acquire({ wait: ttl + stage.timeout })).release()
    const took = performance.now() - granted
    assert.ok(took < 0.8 * ttl, `the lock was free after ${Math.round(took)} ms of a ttl of ${ttl} ms`)
  })

  it('repeats its own release once, when the store answers again meanwhile', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    await stage.connected(a, b)
    const name = stage.name()
    const ttl = Math.max(stage.ttl, 12_000)
    await a.locks.mutex(name).acquire({ ttl })
    const granted = performance.now()
    await stage.cut(a)
    const closing = a.locks.close()
    await pause(200)
    await stage.heal()
    await stage.settlesInTime('the end', closing, longestClose)
    await (await b.locks.mutex(name).acquire({ wait: ttl + stage.timeout })).release()
    const took = performance.now() - granted
    assert.ok(took < 0.8 * ttl, `the lock was free after ${Math.round(took)} ms of a ttl of ${ttl} ms`)
  })

  it('ends in time when the store gives no answer, and so does a release beside it', async (stage) => {
    const client = stage.client()
    await stage.connected(client)
    const [one, two] = [stage.name(), stage.name()]
    const { ttl } = stage
    const lease = await client.locks.mutex(one).acquire({ ttl })
    await client.locks.mutex(two).acquire({ ttl })
    await stage.cut(client)
    const released = lease.release()
    const closing = client.locks.close()
    const outcome = await stage.settlesInTime('the release to answer', released, ttl + stage.timeout)
    assert.match(outcome, /^(unknown|lost)$/)
    await stage.settlesInTime('the end', closing, longestClose)
  })

  it('refuses whatever is asked afterwards, and may be repeated', async (stage) => {
    const { locks } = stage.client()
    const lock = locks.mutex(stage.name())
    await lock.run(() => undefined)
    await Promise.all([locks.close(), locks.close()])
    await locks.close()
    await assert.rejects(lock.acquire(), closed)
    await assert.rejects(lock.tryAcquire(), closed)
    await assert.rejects(async () => locks.mutex('x'), closed)
    await assert.rejects(async () => locks.inspect('x'), closed)
  })

  it('harms no other client', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    await a.locks.mutex(stage.name()).run(() => undefined)
    const lease = await b.locks.mutex(name).acquire()
    await a.locks.close()
    assert.equal(lease.isHeld, true)
    await lease.extend()
    await b.locks.mutex(stage.name()).run(() => undefined)
    await lease.release()
  })

  it('of a client that was never used does nothing', async (stage) => {
    const client = stage.client()
    client.locks.mutex('x')
    await stage.settlesInTime('the end', client.locks.close())
    assert.equal(client.asked(), 0)
  })

  it('leaves nothing that keeps the process alive', async (stage) => {
    const use = async () => {
      const client = stage.client()
      const name = stage.name()
      const lease = await client.locks.mutex(name).acquire()
      const gone = client.locks.mutex(name).acquire({ wait: 10 })
      await assert.rejects(gone, inVain)
      await lease.release()
      await client.locks.close()
    }
    // Whatever the store's client opens only once is open before the count starts.
    await use()
    await settled(stage)
    const before = resources()
    for (let i = 0; i < 5; i++) await use()
    const rest = () => resources() - before
    await stage.until('what was opened to be closed', () => rest() <= 0).catch(() => undefined)
    assert.ok(rest() <= 0, `left: ${process.getActiveResourcesInfo().join(', ')}`)
  })

  if (traits.shared && childClient !== undefined) {
    it('is not needed by a process that only waits: the wait keeps it alive, without an end, too', async (stage) => {
      const client = stage.client()
      const name = stage.name()
      const lease = await client.locks.mutex(name).acquire()
      const child = acquireInChild(stage, childClient, name, stage.ttl, 'alone')
      await stage.queued(client, name, 1, startUp)
      // A process that nothing keeps alive ends before this timer fires.
      await Promise.race([pause(300), once(child.process, 'exit')])
      assert.equal(child.process.exitCode, null, 'it ended although it waited')
      await lease.release()
      await child.received('granted')
    })
  }

  it('makes no use of the store before the first request', async (stage) => {
    const before = resources()
    const factories = Array.from({ length: 5 }, () => make())
    assert.equal(factories.length, 5)
    const client = stage.client()
    client.locks.mutex('x')
    assert.equal(resources(), before)
  })
}

const resources = () => process.getActiveResourcesInfo().filter((kind) => kind !== 'Immediate').length

/** Sockets of previously closed clients take a moment to disappear. */
async function settled(stage: import('./test-context.js').TestContext): Promise<void> {
  let last = -1
  await stage.until('resources to settle', async () => {
    const now = resources()
    const same = now === last
    last = now
    await new Promise((resolve) => setTimeout(resolve, 50))
    return same
  })
}
