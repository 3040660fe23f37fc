/**
 * Lock caching (`linger`): what stays with a process after its release, and that nobody else is worse off for it.
 * Long because reuse, giving way and the end of the caching are sides of one grant.
 */
import assert from 'node:assert/strict'
import type { AcquireOptions, Lease } from 'holdfast'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { block, expiredWait, type TestContext } from './test-context.js'

/** Longer than any test: what ends the caching is never its own end. */
const linger = 600_000
const patient = { wait: Number.POSITIVE_INFINITY }

/** The attempt that holds `name` in the store. */
async function holder({ locks }: Client, name: string): Promise<string | undefined> {
  const { holders } = await locks.inspect(name)
  return holders.find(({ expiresIn }) => expiresIn > 0)?.attempt
}

/**
 * Acquires and releases until the lock stays with the client, which may not be before its channel for notifications is open.
 * Resolves with the last token and the attempt that holds the lock now, though nobody has a lease.
 */
async function cached(
  context: TestContext,
  client: Client,
  name: string,
  options: AcquireOptions = {},
): Promise<{ readonly token: number; readonly attempt: string }> {
  let token = 0
  let attempt: string | undefined
  await context.until('the lock to stay with its client', async () => {
    const lease = await client.locks.mutex(name).acquire({ linger, ...options })
    token = lease.token
    await lease.release()
    attempt = await holder(client, name)
    return attempt !== undefined
  })
  return { token, attempt: attempt ?? '' }
}

/** What a single attempt says; undefined: not free, or the store did not answer in time. */
async function single(attempt: Promise<Lease | undefined>): Promise<Lease | undefined> {
  try {
    return await attempt
  } catch (error) {
    assert.match(String((error as { readonly code?: unknown }).code), expiredWait.code)
    return undefined
  }
}

export function caching(it: It, { traits }: Fixture): void {
  if (traits.caching !== true) {
    it('is refused before anything is sent', async (context) => {
      const client = context.client()
      const refused = { code: 'UNSUPPORTED' }
      const name = context.name()
      assert.throws(() => client.locks.mutex(name, { linger: 5 }), refused)
      await assert.rejects(client.locks.mutex(name).acquire({ linger: 5 }), refused)
      assert.equal(client.asked(), 0)
    })
    return
  }
  reusing(it)
  givingWay(it, traits.fair)
  ending(it)
}

function reusing(it: It): void {
  it('keeps the grant: the next lease here has the same one and a greater token', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    await context.until('a reuse', async () => {
      const before = await cached(context, a, name)
      const lease = await a.locks.mutex(name).acquire({ linger })
      assert.ok(lease.token > before.token, `token ${lease.token} came after ${before.token}`)
      const same = (await holder(b, name)) === before.attempt
      await lease.release()
      return same
    })
    const lease = await a.locks.mutex(name).acquire({ linger })
    await context.assertHeld(b, name)
    await lease.release()
  })

  it('gives each lease its own token, and the next client a greater one', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    let { token } = await cached(context, a, name)
    for (let i = 0; i < 50; i++) {
      const lease = await a.locks.mutex(name).acquire({ linger })
      assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
      token = lease.token
      await lease.release()
    }
    const lease = await b.locks.mutex(name).acquire(patient)
    assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
    await lease.release()
  })

  it('is no lease: what has run out while it was cached is not reused', async (context) => {
    const [a, name] = [context.client(), context.name()]
    const { ttl } = context
    const before = await cached(context, a, name, { ttl })
    // A blocked client renews nothing.
    block(1.2 * ttl)
    const lease = await a.locks.mutex(name).acquire({ ttl, linger })
    const attempt = await holder(a, name)
    if (lease.isHeld)
      assert.ok(attempt !== undefined && attempt !== before.attempt, 'nobody holds it in the store')
    assert.ok(lease.token > before.token, `token ${lease.token} came after ${before.token}`)
    await lease.release()
  })

  it('is not reused by a client that was cut off, once another has the lock', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    const ttl = context.lasting
    const before = await cached(context, a, name, { ttl })
    await context.cut(a)
    const waited = b.locks.mutex(name).acquire(patient)
    const lease = await context.settlesInTime('the other client', waited, ttl + 2 * context.timeout)
    assert.ok(lease.token > before.token, `token ${lease.token} came after ${before.token}`)
    assert.equal(await single(a.locks.mutex(name).tryAcquire({ ttl, linger })), undefined)
    await context.heal()
    const next = a.locks.mutex(name).acquire({ ttl, linger, ...patient })
    await lease.release()
    const again = await context.settlesInTime('the first client', next, 2 * context.timeout)
    assert.ok(again.token > lease.token, `token ${again.token} came after ${lease.token}`)
    await again.release()
  })
}

function givingWay(it: It, fair: boolean): void {
  it('ends when another client waits', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    const { token } = await cached(context, a, name)
    const waited = b.locks.mutex(name).acquire(patient)
    const lease = await context.settlesInTime('the waiter to be served', waited, 2 * context.timeout)
    assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
    await context.assertHeld(a, name)
    await lease.release()
  })

  it('does not refuse a single attempt of another client', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    const attempts: Record<string, () => Promise<Lease | undefined>> = {
      'tryAcquire()': () => b.locks.mutex(name).tryAcquire(),
      'wait: 0': () => b.locks.mutex(name).acquire({ wait: 0 }),
      'several locks': () => b.locks.all([b.locks.mutex(name), b.locks.mutex(context.name())]).tryAcquire(),
    }
    // It queues for some ms, which a busy machine may not notice in time. The lock is cached again for the next try.
    for (const [what, attempt] of Object.entries(attempts))
      await context.until(`${what} to be granted`, async () => {
        await cached(context, a, name)
        const lease = await single(attempt())
        await lease?.release()
        return lease !== undefined
      })
  })

  it('refuses a single attempt when the lock is held, and leaves no queue entry', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    await cached(context, a, name)
    const lease = await a.locks.mutex(name).acquire({ linger })
    await context.assertHeld(b, name)
    await context.until('its queue entry to be gone', async () => (await context.waiters(b, name)) === 0)
    assert.equal(lease.isHeld, true)
    await lease.release()
    const next = await b.locks.mutex(name).acquire(patient)
    await next.release()
  })

  if (fair)
    it('ends for a waiter with `fair: true`, which is served before the next lease here', async (context) => {
      const [a, b, name] = [context.client(), context.client(), context.name()]
      await cached(context, a, name)
      const lease = await a.locks.mutex(name).acquire({ linger })
      const order: string[] = []
      const served = b.locks.mutex(name).run(() => void order.push('waiter'), { fair: true, ...patient })
      await context.queued(b, name, 1)
      await context.until('the holder to hear of it', () => a.contended(name))
      await lease.release()
      const again = a.locks
        .mutex(name)
        .run(() => void order.push('holder'), { fair: true, linger, ...patient })
      await context.settlesInTime('both to be served', Promise.all([served, again]), 2 * context.timeout)
      assert.deepEqual(order, ['waiter', 'holder'])
    })

  it('lasts at a client that never leaves the lock for long only until another waits', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    await cached(context, a, name)
    let stop = false
    const busy = (async () => {
      while (!stop) await (await a.locks.mutex(name).acquire({ linger, ...patient })).release()
    })()
    const waited = b.locks.mutex(name).acquire(patient)
    const lease = await context
      .settlesInTime('the waiter to be served', waited, 2 * context.timeout)
      .finally(() => {
        stop = true
      })
    await lease.release()
    await busy
  })
}

function ending(it: It): void {
  it('ends with close()', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    await cached(context, a, name)
    await a.locks.close()
    await context.assertFree(b, name)
  })

  it('ends when `linger` is over', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    await cached(context, a, name)
    await (await a.locks.mutex(name).acquire({ linger: 20 })).release()
    await context.until('it to be given back', async () => (await holder(b, name)) === undefined)
  })

  it('ends with a forced release: here the lock was free, and elsewhere the grant is not reused', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    await cached(context, a, name)
    assert.equal(await a.locks.forceRelease(name), 0)
    assert.equal(await holder(b, name), undefined)
    const before = await cached(context, a, name)
    await b.locks.forceRelease(name)
    // As every holder does, it may hear of that a moment later.
    await context.until('another grant', async () => {
      const lease = await a.locks.mutex(name).acquire({ linger, ...patient })
      assert.ok(lease.token > before.token, `token ${lease.token} came after ${before.token}`)
      const attempt = await holder(b, name)
      await lease.release()
      return attempt !== undefined && attempt !== before.attempt
    })
  })
}
