// Lock caching (`linger`): what is cached, who gets it, and what must never be reused. Frozen and killed processes: faults/caching.test.ts.
// Long because each hazard of the protocol has its test here.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks } from '../../../src/create-locks.js'
import { redis } from '../../../src/drivers/redis/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy } from '../../support/proxy.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { commands, type Peer, type PeerOptions, peer, reachable, withoutLooking } from './support/peer.js'

const server = await startRedis({ preload: ['clock'] })
after(() => server.stop())

/** Longer than any test. */
const linger = 600_000
const ttl = 60_000

/** The attempt that holds `name` in the store. */
async function holder({ locks }: Peer, name: string): Promise<string | undefined> {
  const { holders } = await locks.inspect(name)
  return holders[0]?.attempt
}

/** Acquires and releases until the grant stays in the process: not before it can be notified. Returns the last token. */
async function cached(at: Peer, name: string, options: object = {}): Promise<number> {
  let token = 0
  await until(async () => {
    const lease = await at.locks.mutex(name).acquire({ ttl, linger, ...options })
    token = lease.token
    assert.equal(await lease.release(), 'released')
    return (await holder(at, name)) !== undefined
  })
  return token
}

function peers(t: TestContext, options?: PeerOptions): [Peer, Peer] {
  return [peer(t, server.port, options), peer(t, server.port, { env: { clock: withoutLooking() } })]
}

test('a reuse sends nothing, and each has a greater token', async (t) => {
  const [a, b] = peers(t)
  let last = await cached(a, 'reused')
  // The hold may be checked once more after the subscription came up.
  await until(async () => {
    await commands(b.client)
    for (let i = 0; i < 100; i++) {
      const lease = await a.locks.mutex('reused').acquire({ ttl, linger })
      assert.ok(lease.token > last)
      assert.ok(lease.isHeld)
      last = lease.token
      await lease.release()
    }
    return Object.keys(await commands(b.client)).length === 0
  })
  const lease = await b.locks.mutex('reused').acquire()
  assert.ok(lease.token > last)
  await lease.release()
})

test('neither health() nor waitUntilFree() leaves anything cached', async (t) => {
  const [a, b] = peers(t)
  const locks = createLocks(redis({ client: a.client, maxTtl: 600_000 }), { ttl, linger })
  t.after(() => locks.close())
  await cached({ ...a, locks }, 'opens the subscription')
  for (let i = 0; i < 3; i++) {
    assert.equal((await locks.health()).ok, true)
    await locks.mutex('once free').waitUntilFree()
  }
  assert.equal(await holder(b, 'once free'), undefined)
  assert.equal(await holder(b, 'holdfast:health'), undefined)
})

test('without linger, a release goes to the store', async (t) => {
  const [a, b] = peers(t)
  await cached(a, 'other')
  await (await a.locks.mutex('plain').acquire({ ttl })).release()
  assert.equal(await holder(b, 'plain'), undefined)
})

test('a waiter elsewhere gets it at once, without polling again', async (t) => {
  const [a, b] = peers(t)
  const token = await cached(a, 'wanted')
  const lease = await b.locks.mutex('wanted').acquire({ wait: 60_000 })
  assert.ok(lease.token > token)
  assert.equal(await a.locks.mutex('wanted').tryAcquire({ ttl, linger }), undefined)
  await lease.release()
})

test('a single attempt elsewhere is not refused by a cache', async (t) => {
  const [a, b] = peers(t)
  for (const attempt of [
    () => b.locks.mutex('tried').tryAcquire(),
    () =>
      b.locks
        .mutex('tried')
        .acquire({ wait: 0 })
        .catch(() => undefined),
  ]) {
    const token = await cached(a, 'tried')
    // Under load the holder's process may answer later than the attempt is queued.
    const lease = await until(attempt)
    assert.ok(lease.token > token)
    await lease.release()
  }
})

test('a single attempt is not refused by a cache where a round trip takes longer than an attempt waits at least', async (t) => {
  const far = [await startProxy({ port: server.port }), await startProxy({ port: server.port })] as const
  t.after(() => Promise.all(far.map((proxy) => proxy.stop())))
  const [a, b] = [peer(t, far[0].port), peer(t, far[1].port)]
  const looking = peer(t, server.port)
  // Its channel is open, and it knows the server.
  await cached(b, 'far, other')
  await cached(a, 'far')
  for (const { up, down } of far) for (const direction of [up, down]) direction.delay(15)
  await until(async () => {
    await (await a.locks.mutex('far').acquire({ ttl, linger })).release()
    if ((await holder(looking, 'far')) === undefined) return false
    const lease = await b.locks.mutex('far').tryAcquire({ ttl })
    await lease?.release()
    return lease !== undefined
  })
})

test('a single attempt that a real holder refuses leaves no queue entry', async (t) => {
  const [a, b] = peers(t)
  await cached(a, 'really held')
  const lease = await a.locks.mutex('really held').acquire({ ttl, linger })
  assert.equal(await b.locks.mutex('really held').tryAcquire(), undefined)
  assert.deepEqual((await b.locks.inspect('really held')).waiters, [])
  assert.ok(lease.isHeld)
  await lease.release()
})

test('another note, another ttl and a fair request go to the store', async (t) => {
  const [a] = peers(t)
  for (const [i, options] of [{ note: 'b' }, { ttl: ttl + 1 }, { fair: true }, { lockDelay: 5 }].entries()) {
    const name = `differs ${i}`
    const token = await cached(a, name, { note: 'a' })
    const before = await holder(a, name)
    const lease = await a.locks.mutex(name).acquire({ ttl, linger, note: 'a', ...options })
    assert.ok(lease.token > token)
    const { holders } = await a.locks.inspect(name)
    assert.notEqual(holders[0]?.attempt, before)
    assert.equal(holders[0]?.note, 'note' in options ? 'b' : 'a')
    await lease.release()
  }
})

test('a single attempt with another note here is not refused by the own cache', async (t) => {
  const [a] = peers(t)
  const token = await cached(a, 'own try', { note: 'a' })
  const lease = await a.locks.mutex('own try').tryAcquire({ ttl, linger, note: 'b' })
  assert.ok(lease !== undefined && lease.token > token)
  await lease.release()
})

test('it goes back when linger is over', async (t) => {
  const [a, b] = peers(t)
  await cached(a, 'another')
  await (await a.locks.mutex('short').acquire({ ttl, linger: 20 })).release()
  await until(async () => (await holder(b, 'short')) === undefined)
})

test('close() gives it back', async (t) => {
  const [a, b] = peers(t)
  await cached(a, 'closed')
  await a.locks.close()
  const lease = await b.locks.mutex('closed').tryAcquire()
  assert.ok(lease)
  await lease.release()
})

test('of a thousand and one names, the one cached longest goes back', async (t) => {
  const [a, b] = peers(t)
  await cached(a, 'many')
  const fill = (_: unknown, i: number) => a.locks.mutex(`many ${i}`).run(() => undefined, { ttl, linger })
  await Promise.all(Array.from({ length: 1_000 }, fill))
  await until(async () => (await holder(b, 'many')) === undefined)
  for (let i = 0; i < 1_000; i += 333) assert.notEqual(await holder(b, `many ${i}`), undefined)
})

test('forceRelease here: to its callers the lock was free, and it is not reused', async (t) => {
  const [a] = peers(t)
  const token = await cached(a, 'forced here')
  assert.equal(await a.locks.forceRelease('forced here'), 0)
  assert.equal(await holder(a, 'forced here'), undefined)
  const lease = await a.locks.mutex('forced here').acquire()
  assert.ok(lease.token > token)
  await lease.release()
})

test('forceRelease elsewhere ends it', async (t) => {
  const [a, b] = peers(t)
  await cached(a, 'forced')
  const before = await holder(b, 'forced')
  assert.equal(await b.locks.forceRelease('forced'), 1)
  await until(async () => {
    const lease = await a.locks.mutex('forced').acquire({ ttl })
    const attempt = await holder(b, 'forced')
    await lease.release()
    return attempt !== undefined && attempt !== before
  })
})

test('revoke elsewhere, without grace: the cache gives way, and no holder loses anything', async (t) => {
  const [a, b] = peers(t)
  const lost: unknown[] = []
  a.locks.on('lost', (event) => lost.push(event))
  await cached(a, 'revoked')
  // A slow machine may take longer than the holder has: then the hold is forced, and it was but a cache.
  assert.notEqual(await b.locks.revoke('revoked', { grace: 10_000 }), 'forced')
  assert.equal(await holder(b, 'revoked'), undefined)
  await cached(a, 'revoked')
  assert.equal(await a.locks.revoke('revoked', { grace: 0 }), 'free')
  assert.deepEqual(lost, [])
})

test('revoke does not force a later holder that has reused the grant', async (t) => {
  const [a, b] = peers(t)
  const lost: unknown[] = []
  a.locks.on('lost', (event) => lost.push(event))
  await cached(a, 'later')
  const lease = await a.locks.mutex('later').acquire({ ttl, linger })
  const asked = b.locks.revoke('later', { grace: 30_000 })
  await reachable(server, 'later', 1)
  await lease.release()
  const next = await a.locks.mutex('later').acquire({ ttl, linger })
  assert.equal(await asked, 'released')
  assert.ok(next.isHeld)
  await next.release()
  assert.deepEqual(lost, [])
})

test('check knows which token is in use, and elsewhere it does not guess', async (t) => {
  const [a, b] = peers(t)
  const name = 'checked'
  const token = await cached(a, name)
  assert.equal(await a.locks.check({ name, token }), false)
  const lease = await a.locks.mutex(name).acquire({ ttl, linger })
  assert.equal(await a.locks.check(lease), true)
  assert.equal(await a.locks.check({ name, token }), false)
  assert.equal(await a.locks.check({ name, token: lease.token + 1 }), false)
  await assert.rejects(b.locks.check(lease), { code: 'UNSUPPORTED' })
  await lease.release()
})

test('a lock that is never cached, because it is not renewed, does not look cached elsewhere', async (t) => {
  const [a, b] = peers(t)
  const lease = await a.locks.mutex('not renewed').acquire({ ttl, linger, autoRenew: false })
  assert.equal(await b.locks.check(lease), true)
  await lease.release()
  assert.equal(await holder(b, 'not renewed'), undefined)
})

test('a loop that never leaves the microtasks does not keep others out', async (t) => {
  const [a, b] = peers(t)
  await cached(a, 'busy')
  let stop = false
  const loop = (async () => {
    while (!stop) await (await a.locks.mutex('busy').acquire({ ttl, linger })).release()
  })()
  const lease = await b.locks.mutex('busy').acquire({ wait: 60_000 })
  stop = true
  await lease.release()
  await loop
})

test('a fair waiter elsewhere is served before a reuse', async (t) => {
  const [a, b] = peers(t)
  await cached(a, 'fair')
  const lease = await a.locks.mutex('fair').acquire({ ttl, linger })
  const waited = b.locks.mutex('fair').acquire({ fair: true })
  await reachable(server, 'fair', 1)
  await lease.release()
  const order: string[] = []
  const again = a.locks
    .mutex('fair')
    .acquire({ ttl, linger, fair: true })
    .then((lease) => {
      order.push('a')
      return lease
    })
  const served = await waited
  order.push('b')
  await served.release()
  await (await again).release()
  assert.deepEqual(order, ['b', 'a'])
})

test('several locks: elsewhere both are given, and here both are reused', async (t) => {
  const [a, b] = peers(t)
  const of = ({ locks }: Peer) =>
    locks.all([locks.mutex('x', { ttl, linger }), locks.mutex('y', { ttl, linger })])
  await cached(a, 'x')
  await cached(a, 'y')
  const before = [await holder(b, 'x'), await holder(b, 'y')]
  await (await of(a).acquire({ ttl, linger })).release()
  assert.deepEqual([await holder(b, 'x'), await holder(b, 'y')], before)
  // Single attempts that come after each other without a turn of the event loop may be sent to the store.
  assert.ok(await (await of(a).tryAcquire({ ttl, linger }))?.release())
  const lease = await until(() => of(b).tryAcquire())
  await lease.release()
  await cached(a, 'x')
  await (await of(b).acquire({ wait: 60_000 })).release()
})

test('several locks that a holder without linger refuses in one step: nothing is inspected', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('v').acquire({ ttl })
  const both = b.locks.all([b.locks.mutex('u'), b.locks.mutex('v')])
  assert.equal(await both.tryAcquire({ ttl }), undefined)
  await commands(b.client)
  assert.equal(await both.tryAcquire({ ttl }), undefined)
  // Only inspect() counts a queue.
  assert.equal((await commands(b.client)).zcard, undefined)
  await b.locks.inspect('v')
  assert.equal((await commands(b.client)).zcard, 1)
  await lease.release()
})

test('a reused lease moves to another process with its token', async (t) => {
  const [a, b] = peers(t)
  const token = await cached(a, 'moved')
  const lease = await a.locks.mutex('moved').acquire({ ttl, linger })
  const adopted = await b.locks.adopt(await a.locks.export(lease))
  assert.ok(lease.token > token)
  assert.equal(adopted.token, lease.token)
  assert.equal(await a.locks.mutex('moved').tryAcquire({ ttl, linger }), undefined)
  assert.equal(await adopted.release(), 'released')
  assert.equal(await holder(a, 'moved'), undefined)
})

/** A process behind two cables: one for its commands, one for what is pushed to it. */
async function wired(t: TestContext): Promise<Peer & { readonly talk: Cable; readonly hear: Cable }> {
  const [talk, hear] = [await startProxy({ port: server.port }), await startProxy({ port: server.port })]
  const subscriber = peer(t, hear.port, { ioredis: { lazyConnect: true } }).client
  await subscriber.connect()
  const made = peer(t, talk.port, { subscriber })
  t.after(async () => {
    await talk.stop()
    await hear.stop()
  })
  return { ...made, talk, hear }
}
type Cable = Awaited<ReturnType<typeof startProxy>>

test('a lost push is repeated when the waiter polls again', async (t) => {
  const a = await wired(t)
  const b = peer(t, server.port)
  await cached(a, 'lost push')
  a.hear.down.drop()
  const waited = b.locks.mutex('lost push').acquire({ wait: 120_000 })
  await until(async () => (await b.locks.inspect('lost push')).waiters.length === 1)
  a.hear.heal()
  const lease = await waited
  await lease.release()
})

for (const what of ['talk', 'hear'] as const) {
  test(`a cached lock is not reused after its connection broke (${what})`, async (t) => {
    const a = await wired(t)
    const b = peer(t, server.port)
    const token = await cached(a, `broke ${what}`)
    const before = await holder(b, `broke ${what}`)
    const closed = new Promise<void>((resolve) => a.client.once('close', resolve))
    a[what].reset()
    if (what === 'talk') await closed
    else await until(async () => (await holder(b, `broke ${what}`)) !== before)
    const lease = await a.locks.mutex(`broke ${what}`).acquire({ ttl, linger })
    assert.notEqual(await holder(b, `broke ${what}`), before)
    assert.ok(lease.token > token)
    await lease.release()
  })
}

test('after FLUSHALL nobody else gets it before the cached grant has expired', async (t) => {
  const forgetful = await startRedis()
  t.after(() => forgetful.stop())
  const [a, b] = [peer(t, forgetful.port, { maxTtl: 1_000 }), peer(t, forgetful.port, { maxTtl: 1_000 })]
  const token = await cached(a, 'flushed', { ttl: 1_000 })
  await forgetful.cli('FLUSHALL')
  const lease = await b.locks.mutex('flushed').acquire({ ttl: 1_000, wait: 60_000 })
  assert.ok(lease.token > token)
  const reused = await a.locks.mutex('flushed').tryAcquire({ ttl: 1_000, linger })
  // A process that stalls for longer than a ttl has lost it by then.
  if (lease.isHeld) assert.equal(reused, undefined)
  await reused?.release()
  await lease.release()
})

test('linger is refused where nobody could tell the holder that others wait', async (t) => {
  const deaf = peer(t, server.port, { subscriber: false })
  assert.throws(() => deaf.locks.mutex('deaf', { linger: 5 }), { code: 'UNSUPPORTED' })
  await assert.rejects(deaf.locks.mutex('deaf').acquire({ linger: 5 }), { code: 'UNSUPPORTED' })
})

after(leakCheck)
