// Servers that forget (H15–H22): the clock set, a restart without data, a power cut, a promotion, eviction, FLUSHALL. Each
// shows the plain recipe, `SET key id NX PX ttl`, giving the lock to a second holder, and what ours does.
// Second tier because it restarts servers for more than a minute; the suite's outage and redis-peers.test.ts are the part for every change.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Redis } from 'ioredis'
import type { Lease } from '../../src/core/lease.js'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { redis } from '../../src/drivers/redis/index.js'
import { driverOn, open } from '../drivers/redis/support/clients.js'
import { type Peer, type PeerOptions, peer } from '../drivers/redis/support/peer.js'
import { versionNamed } from '../drivers/redis/support/versions.js'
import { waitsInVain } from '../drivers/support/in-vain.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { type RedisOptions, type RedisServer, startRedis } from '../support/servers/redis.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

const ttl = 1_500

async function own(t: TestContext, options: RedisOptions = {}): Promise<RedisServer> {
  const server = await startRedis(options)
  t.after(() => server.stop())
  return server
}

const plain = (client: Redis, key: string) => client.set(key, 'somebody', 'PX', 30_000, 'NX')

/** A process that has used the server before, as all do that may hold something. */
async function settled(t: TestContext, port: number, options: PeerOptions = {}): Promise<Peer> {
  const made = peer(t, port, { maxTtl: ttl, ttl, ...options })
  await made.locks.mutex('used before').run(() => undefined)
  return made
}

/** One attempt, while it may still be barred: granted so soon, then only because the time is over already. */
async function soon(locks: Locks, ends: number): Promise<Lease> {
  const early = await locks.mutex('x').tryAcquire()
  const lease = early ?? (await locks.mutex('x').acquire({ ttl, wait: 20_000 }))
  assert.ok(performance.now() > ends, 'granted while the first holder could still believe in it')
  return lease
}

/** Resolves once it has been renewed twice more. */
async function renewedTwice({ locks }: Peer): Promise<void> {
  let renewed = 0
  const off = locks.on('renewed', () => renewed++)
  await until(() => renewed >= 2)
  off()
}

/** When what `lease` promises has certainly ended; by then it must know. */
function endOf(lease: Lease): number {
  return performance.now() + lease.remaining()
}

test('H15: a clock set forward ends a lease early: the holder is notified, and the next token is greater', async (t) => {
  const server = await own(t, { preload: ['clock'] })
  const long = { maxTtl: 30_000 }
  const [a, b] = [await settled(t, server.port, long), await settled(t, server.port, long)]
  assert.equal(await plain(a.client, 'plain'), 'OK')
  const first = await a.locks.mutex('x').acquire({ ttl: 30_000 })
  server.clockJump(60_000)
  assert.equal(await plain(b.client, 'plain'), 'OK', 'the plain lock has vanished')
  const second = await b.locks.mutex('x').acquire({ ttl: 30_000 })
  assert.ok(second.token > first.token)
  await assert.rejects(first.extend(), { code: 'LEASE_LOST' })
  assert.equal(first.isHeld, false)
  assert.equal(await second.release(), 'released')
})

test('H15: a clock set back does not extend the hold of a dead holder, and tokens keep growing', async (t) => {
  const server = await own(t, { preload: ['clock'] })
  const long = { maxTtl: 3_000 }
  const [a, b] = [await settled(t, server.port, long), await settled(t, server.port, long)]
  assert.equal(await plain(a.client, 'plain'), 'OK')
  const first = await a.locks.mutex('x').acquire({ ttl: 1_000, autoRenew: false })
  const kept = await a.locks.mutex('kept').acquire({ ttl: 3_000 })
  server.clockJump(-3_600_000)
  const second = await b.locks.mutex('x').acquire({ wait: 20_000 })
  assert.ok(second.token > first.token)
  assert.ok((await b.client.pttl('plain')) > 3_000_000, 'the plain lock stays for an hour')
  await renewedTwice(a)
  assert.ok(kept.isHeld, 'a renewed lease is not harmed')
  assert.equal(await kept.release(), 'released')
  assert.equal(await second.release(), 'released')
})

test('H15: a clock set back after the server has forgotten an unused lock: the next token is smaller', async (t) => {
  const server = await own(t, { preload: ['clock'] })
  const { locks, client } = await settled(t, server.port, { retention: 1_000 })
  const first = await locks.mutex('x').acquire()
  assert.equal(await first.release(), 'released')
  await until(async () => (await client.exists('hf:{x}')) === 0)
  server.clockJump(-3_600_000)
  const second = await locks.mutex('x').acquire({ wait: 20_000 })
  assert.ok(second.token < first.token, 'the clock alone knew of the first')
  assert.equal(await second.release(), 'released')
})

test('H16: after a restart without data nothing is granted until all earlier holds have expired', async (t) => {
  const server = await own(t)
  const [a, b] = [await settled(t, server.port), await settled(t, server.port)]
  assert.equal(await plain(a.client, 'plain'), 'OK')
  const first = await a.locks.mutex('x').acquire({ ttl })
  const { token } = first
  const ends = endOf(first)
  await server.restart({ keepData: false })
  assert.equal(await plain(b.client, 'plain'), 'OK', 'the plain lock has a second holder')
  const second = await soon(b.locks, ends)
  assert.ok(!first.isHeld)
  assert.ok(second.token > token)
  await second.release()
  // A process that comes now finds the marker and need not wait.
  const late = peer(t, server.port, { maxTtl: ttl, ttl })
  assert.ok(await late.locks.mutex('y').tryAcquire())
})

for (const library of ['ioredis', 'node-redis'] as const)
  test(`H16: the holder of a lock lost in a restart is notified as soon as it is connected again (${library})`, async (t) => {
    const server = await own(t)
    // A renewal is due after a third of it.
    const ttl = 600_000
    const locks = createLocks(driverOn(open(library, { is: 'single', port: server.port }), { maxTtl: ttl }), {
      ttl,
    })
    t.after(() => locks.close())
    const lease = await locks.mutex('x').acquire()
    const kept = new Promise<unknown>((resolve) => {
      lease.signal.addEventListener('abort', () => resolve(lease.signal.reason), { once: true })
    })
    const before = performance.now()
    await server.restart({ keepData: false })
    const reason = (await kept) as Error & { why?: string }
    assert.ok(performance.now() - before < ttl / 4, 'it was told by a renewal')
    assert.equal(lease.isHeld, false)
    assert.match(String(reason), /LeaseLost/)
  })

for (const [also, known, names] of [
  ['', false, ['x']],
  [', even if another request of the process has learnt meanwhile who that is', true, ['x']],
  [', several at once, too', true, ['x', 'z']],
] as const) {
  test(`H16: a request that the client resends to the restarted server, which has lost its scripts too, is made again${also}`, async (t) => {
    const server = await own(t, { preload: ['clock'] })
    // It started long ago: taken for that server, the new one would have nothing to wait for.
    server.clockJump(60_000)
    const proxy = await startProxy({ port: server.port })
    t.after(() => proxy.stop())
    const a = await settled(t, server.port)
    const b = peer(t, proxy.port, { maxTtl: ttl, ttl, commandTimeout: 20_000 })
    const first = await a.locks.mutex('x').acquire({ ttl })
    const ends = endOf(first)
    // The first request of its life that could take a lock: it knows which server it asks, and has seen no marker yet.
    proxy.up.hold((bytes) => /evalsha/i.test(bytes.toString()))
    const wanted = names.map((name) => b.locks.mutex(name))
    const acquiring = (names.length > 1 ? b.locks.all(wanted) : b.locks.mutex('x')).acquire({
      ttl,
      wait: 20_000,
    })
    await proxy.up.holding()
    await server.restart({ keepData: false })
    if (known) proxy.down.hold('NOSCRIPT')
    proxy.up.pass()
    if (known) {
      // The second request asks who the server is before the first learns that it must send its script, and is told before that is answered.
      await proxy.down.holding()
      const other = b.locks.mutex('y').acquire({ ttl, wait: 20_000 })
      await proxy.down.holding(2)
      proxy.down.pass()
      void other.then((lease) => lease.release())
    }
    // Sent again, it still names the server that is no more; the first answer to it is NOSCRIPT.
    const second = await acquiring
    assert.ok(performance.now() > ends, 'granted while the first holder could still believe in it')
    await second.release()
  })
}

test('H16: a client of a server that has just started waits until all that it may have forgotten has expired, and says so', async (t) => {
  const before = performance.now()
  const server = await own(t, { isNew: false })
  // Long enough that it is not over before somebody has waited, on a machine that is paused for a moment.
  const maxTtl = 10_000
  const { locks } = peer(t, server.port, { maxTtl, ttl })
  await waitsInVain(locks, locks.mutex('x'), /quarantine until \d\d:\d\d:\d\d UTC .*doctor/)
  // INFO tells whole seconds.
  await (await soon(locks, before + maxTtl - 1_000)).release()
  const other = peer(t, server.port, { maxTtl, ttl })
  assert.ok(await other.locks.mutex('y').tryAcquire(), 'once is enough for all')
})

test('H16: a server that has been up for long and from which nothing was deleted is used at once', async (t) => {
  const server = await own(t, { isNew: false })
  await until(async () => /uptime_in_seconds:[2-9]/.test(String(await server.cli('INFO', 'server'))))
  const { locks } = peer(t, server.port, { maxTtl: 500, ttl: 400 })
  assert.ok(await locks.mutex('x').tryAcquire())
})

test('H16, detected: a server nobody here knew is taken as new: first use costs nothing', async (t) => {
  const server = await own(t, { isNew: false })
  const { locks } = peer(t, server.port, { quarantine: 'detected' })
  assert.ok(await locks.mutex('x').tryAcquire())
})

for (const what of ['FLUSHALL', 'a restart without data'] as const)
  for (const quarantine of ['strict', 'detected'] as const)
    test(`H16, H22: after ${what} a process that never met the server (${quarantine}) does not enable processes that did to be granted locks`, async (t) => {
      const server = await own(t)
      const [a, b] = [await settled(t, server.port), await settled(t, server.port)]
      const first = await a.locks.mutex('x').acquire({ ttl, autoRenew: false })
      const ends = endOf(first)
      if (what !== 'FLUSHALL') await server.restart({ keepData: false })
      else await server.cli('FLUSHALL')
      const newcomer = peer(t, server.port, { maxTtl: ttl, ttl, quarantine })
      // The marker is there again, made by one that knew nothing.
      const early = await newcomer.locks.mutex(quarantine === 'strict' ? 'x' : 'y').tryAcquire()
      if (quarantine === 'strict') assert.equal(early, undefined)
      assert.match(String(await server.cli('GET', 'hf:boot')), /^\d+ /)
      await (await soon(b.locks, ends)).release()
      assert.ok(!first.isHeld)
    })

test('H16, off: nothing is asked and nothing is waited for', async (t) => {
  const server = await own(t)
  const a = await settled(t, server.port, { quarantine: 'off' })
  await server.restart({ keepData: false })
  // Connected to the server that has just started.
  await a.client.ping()
  assert.ok(await a.locks.mutex('x').tryAcquire())
  assert.equal(await a.client.exists('hf:boot'), 0)
})

test('H16: waiters of a server that died are queued again, and are served', async (t) => {
  const server = await own(t)
  const long = { maxTtl: 3_000 }
  const [a, b, c] = [
    await settled(t, server.port, long),
    await settled(t, server.port, long),
    await settled(t, server.port, long),
  ]
  const first = await a.locks.mutex('x').acquire({ ttl: 3_000 })
  const waits = [b, c].map(({ locks }) => locks.mutex('x').run(() => undefined, { wait: 20_000 }))
  await until(async () => (await a.locks.inspect('x')).waiters.length === 2)
  await server.restart({ keepData: false })
  await Promise.all(waits)
  assert.ok(!first.isHeld)
})

test('H16: a restart that kept the data still lets holders renew and release', async (t) => {
  const server = await own(t, { persistence: 'aof-always' })
  const long = { maxTtl: 20_000 }
  const [a, b] = [await settled(t, server.port, long), await settled(t, server.port, long)]
  const first = await a.locks.mutex('x').acquire({ ttl: 20_000 })
  await server.restart()
  await until(() => a.client.status === 'ready')
  assert.ok((await first.extend()) > 15_000)
  assert.equal(await b.locks.mutex('x').tryAcquire(), undefined)
  assert.equal(await first.release(), 'released')
})

test('H16: a server that syncs every write and restarts has forgotten nothing: it grants at once, to anybody', async (t) => {
  const server = await own(t, { persistence: 'aof-always' })
  const a = peer(t, server.port, { maxTtl: 30_000 })
  const first = await a.locks.mutex('x').acquire()
  await server.restart()
  const b = peer(t, server.port, { maxTtl: 30_000 })
  assert.ok(await b.locks.mutex('y').acquire({ wait: 5_000 }))
  assert.equal(await b.locks.mutex('x').tryAcquire(), undefined)
  assert.ok(await a.locks.mutex('z').acquire({ wait: 5_000 }))
  assert.ok(first.isHeld)
})

test('H16: so it does to clients that speak RESP 3, in which the settings come as a map', async (t) => {
  const server = await own(t, { persistence: 'aof-always' })
  for (const name of ['ioredis 6.0.0', 'redis 5.0.0', 'redis 5.12.1', 'redis 6.3.1']) {
    await server.restart()
    const options = name.startsWith('ioredis') ? { protocol: 3 } : { RESP: 3 }
    const place = { is: 'single', port: server.port } as const
    const { client, start, close } = await versionNamed(name).open(place, options)
    await start()
    const locks = createLocks(redis({ client, maxTtl: 30_000 }))
    t.after(() => locks.close().then(close))
    const lease = await locks.mutex(name).acquire({ wait: 5_000 })
    assert.equal(await lease.release(), 'released')
  }
})

test('H17: a power cut that loses the last second of the append-only file loses no holder’s lock', async (t) => {
  const server = await own(t, { persistence: 'aof-everysec', preload: ['power'] })
  const [a, b] = [await settled(t, server.port), await settled(t, server.port)]
  // The server syncs when its clock shows a new second and something has been written. Then the marker is on the disk. The second
  // after that does not end here, however busy the machine is.
  await until(async () => server.unsynced() === 0 || !(await a.client.set('tick', '1')), { every: 20 })
  await a.client.config('SET', 'appendfsync', 'no')
  const first = await a.locks.mutex('x').acquire({ ttl })
  const ends = endOf(first)
  assert.equal(await plain(a.client, 'plain'), 'OK')
  assert.ok(server.unsynced() > 0)
  await server.powerCut()
  await server.restart()
  assert.equal(await plain(b.client, 'plain'), 'OK', 'the plain lock has a second holder')
  const second = await b.locks.mutex('x').acquire({ ttl, wait: 20_000 })
  assert.ok(performance.now() > ends)
  assert.ok(!first.isHeld)
  assert.ok(second.token > first.token)
  await second.release()
})

for (const library of ['ioredis', 'node-redis'] as const) {
  test(`H17: a master watched by Sentinels that is back with older data before they noticed takes no lock from its holder (${library})`, async (t) => {
    const setup = await startSentinel({ replicas: 0, persistence: 'rdb', downAfter: 60_000 })
    t.after(() => setup.stop())
    const master = setup.master()
    const place = {
      is: 'sentinel',
      name: setup.name,
      sentinels: setup.addresses,
      ports: [master.port],
    } as const
    const [a, b] = [0, 1].map(() => {
      const locks = createLocks(driverOn(open(library, place), { maxTtl: ttl }), { ttl })
      t.after(() => locks.close())
      return locks
    }) as [Locks, Locks]
    for (const { mutex } of [a, b]) await mutex('used before').run(() => undefined)
    await master.cli('SAVE')
    const first = await a.mutex('x').acquire({ ttl })
    const ends = endOf(first)
    await master.restart()
    // Both are connected again, without having sent anything.
    await until(async () => {
      const all = String(await master.cli('CLIENT', 'LIST'))
        .trim()
        .split('\n')
      return all.filter((one) => !/ name=sentinel| cmd=client\|list/.test(one)).length >= 2
    })
    const second = await b.mutex('x').acquire({ ttl, wait: 20_000 })
    assert.ok(performance.now() > ends, 'granted while the first holder could still believe in it')
    assert.ok(!first.isHeld)
    await second.release()
  })
}

test('H18: a promotion that lost the grant: nothing is granted until it has expired, and tokens grow', async (t) => {
  const setup = await startSentinel()
  t.after(() => setup.stop())
  const place = {
    is: 'sentinel',
    name: setup.name,
    sentinels: setup.addresses,
    ports: setup.nodes.map(({ port }) => port),
  } as const
  const client = () => open('ioredis', place).client as Redis
  const a = await settled(t, 0, { client: client() as never })
  const b = await settled(t, 0, { client: client() as never })
  await setup.synced()
  await setup.cutReplication()
  const first = await a.locks.mutex('x').acquire({ ttl })
  const ends = endOf(first)
  assert.equal(await plain(a.client, 'plain'), 'OK')
  await setup.promote({ sync: false })
  await until(async () => (await b.client.get('plain').catch(() => 'not yet')) === null, { within: 20_000 })
  assert.equal(await plain(b.client, 'plain'), 'OK', 'the plain lock has a second holder')
  const second = await b.locks.mutex('x').acquire({ ttl, wait: 20_000 })
  assert.ok(performance.now() > ends)
  assert.ok(!first.isHeld)
  assert.ok(second.token > first.token)
  await second.release()
})

test('H18: with replicas: 1 a grant that no replica has does not count, and is released', async (t) => {
  const setup = await startSentinel({ downAfter: 60_000 })
  t.after(() => setup.stop())
  const master = setup.master()
  const { locks } = peer(t, master.port, { replicas: 1, replicaTimeout: 200 })
  const { locks: others } = peer(t, master.port)
  const kept = await locks.mutex('kept').acquire()
  assert.ok(kept.isHeld)
  await until(() => kept.extend().catch(() => false), { what: 'a replica to have it in time' })
  await setup.cutReplication()
  await waitsInVain(locks, locks.mutex('x'), /0 of 1 replicas/)
  await until(async () => (await others.inspect('x')).holders.length === 0)
  // A renewal no replica has is none: the old deadline stands.
  await assert.rejects(kept.extend(), /0 of 1 replicas/)
  assert.ok(kept.isHeld)
  assert.equal(await kept.release(), 'released')
})

test('H18: with replicas: 1 a hand-over is confirmed by the replica before the next one enters', async (t) => {
  const setup = await startSentinel({ downAfter: 60_000 })
  t.after(() => setup.stop())
  const { port } = setup.master()
  const [a, b] = [peer(t, port, { replicas: 1 }), peer(t, port, { replicas: 1 })]
  const first = await a.locks.mutex('x').acquire()
  const asked = b.locks.mutex('x').acquire()
  await until(async () => (await a.locks.inspect('x')).waiters.length === 1)
  await first.release()
  const second = await asked
  const [replica] = setup.replicas()
  assert.ok(replica)
  assert.match(String(await replica.cli('HGET', 'hf:{x}', 's')), new RegExp(String(second.token)))
  await second.release()
})

test('H19: a ttl longer than maxTtl is refused: after a data loss nobody would know of it', async (t) => {
  const server = await own(t)
  const { locks } = await settled(t, server.port)
  const why = {
    name: 'RangeError',
    message: /"x": a ttl of 3000 ms is more than maxTtl 1500/,
    ttl: 3_000,
    maxTtl: 1_500,
  }
  await assert.rejects(locks.mutex('x').acquire({ ttl: 3_000 }), why)
  await assert.rejects(locks.all([locks.mutex('w'), locks.mutex('x')]).acquire({ ttl: 3_000 }), /maxTtl 1500/)
  const lease = await locks.mutex('x').acquire({ ttl, lockDelay: 10_000 })
  await assert.rejects(lease.extend(3_000), why)
  await lease.release()
})

test('H19: the longest ttl that one process has set applies to all, also after a restart', async (t) => {
  const server = await own(t)
  const a = await settled(t, server.port, { maxTtl: 4_000 })
  const b = await settled(t, server.port)
  const first = await a.locks.mutex('x').acquire({ ttl: 4_000, autoRenew: false })
  const ends = endOf(first)
  await server.restart({ keepData: false })
  assert.equal(await plain(b.client, 'plain'), 'OK')
  const second = await b.locks.mutex('x').acquire({ wait: 20_000 })
  assert.ok(performance.now() > ends)
  await second.release()
})

test('H21: allkeys eviction drops a plain lock and may drop ours: a warning, or a refusal', async (t) => {
  const server = await own(t, { args: ['--maxmemory', '3mb', '--maxmemory-policy', 'allkeys-lru'] })
  const warned: string[] = []
  const note = (warning: Error & { code?: string }) => void warned.push(warning.code ?? '')
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  const { locks, client } = peer(t, server.port)
  await locks.mutex('x').run(() => undefined)
  await until(() => warned.includes('HOLDFAST_REDIS_EVICTION'))
  const strict = peer(t, server.port, { eviction: 'refuse' })
  await assert.rejects(strict.locks.mutex('x').acquire(), /allkeys-lru.*noeviction/)
  assert.equal(await plain(client, 'plain'), 'OK')
  await fill(client, async () => (await client.exists('plain')) === 0)
  assert.equal(await plain(client, 'plain'), 'OK', 'the plain lock was evicted')
})

test('H21: volatile eviction drops a plain lock, but not ours: a lock in use has no time to live', async (t) => {
  const server = await own(t, { args: ['--maxmemory', '3mb', '--maxmemory-policy', 'volatile-lru'] })
  const { locks, client } = peer(t, server.port)
  const lease = await locks.mutex('x').acquire()
  assert.equal(await plain(client, 'plain'), 'OK')
  await fill(client, async () => (await client.exists('plain')) === 0)
  assert.equal(await client.exists('plain'), 0, 'the plain lock was evicted')
  await lease.extend()
  assert.equal(await lease.release(), 'released')
})

test('H22: FLUSHALL under processes that know the server: nothing is granted until all earlier holds have expired', async (t) => {
  const server = await own(t)
  const [a, b] = [await settled(t, server.port), await settled(t, server.port)]
  const first = await a.locks.mutex('x').acquire({ ttl })
  const ends = endOf(first)
  assert.equal(await plain(a.client, 'plain'), 'OK')
  await server.cli('FLUSHALL')
  assert.equal(await plain(b.client, 'plain'), 'OK', 'the plain lock has a second holder')
  const second = await b.locks.mutex('x').acquire({ ttl, wait: 20_000 })
  assert.ok(performance.now() > ends)
  assert.ok(!first.isHeld)
  assert.ok(second.token > first.token)
  await second.release()
})

test('H22: the holder of a flushed lock is notified at its next renewal', async (t) => {
  const server = await own(t)
  const { locks } = await settled(t, server.port, { maxTtl: 6_000 })
  const lease = await locks.mutex('x').acquire({ ttl: 6_000 })
  await server.cli('FLUSHALL')
  await until(() => lease.state === 'lost', { within: 20_000 })
  assert.throws(() => lease.assertHeld(), { code: 'LEASE_LOST', why: 'taken' })
})

test('H22: another prefix or another database is separate', async (t) => {
  const server = await own(t)
  const [a, b, c] = [
    peer(t, server.port),
    peer(t, server.port, { prefix: 'other:', quarantine: 'detected' }),
    peer(t, server.port, { ioredis: { db: 1 }, quarantine: 'detected' }),
  ]
  for (const { locks } of [a, b, c]) assert.ok(await locks.mutex('x').tryAcquire())
  for (const { locks } of [a, b, c]) assert.equal((await locks.list()).length, 1)
})

test('tokens grow over every way of forgetting', async (t) => {
  const server = await own(t)
  const { locks } = await settled(t, server.port, { quarantine: 'off' })
  let last = 0
  for (let i = 0; i < 4; i++) {
    const lease = await locks.mutex('x').acquire()
    assert.ok(lease.token > last)
    last = lease.token
    await lease.release()
    if (i % 2 === 0) await server.cli('FLUSHALL')
    else await server.restart({ keepData: false })
  }
})

/** Writes keys that may be evicted until `done`, at most `most` tenths of a megabyte. */
async function fill(client: Redis, done: () => Promise<boolean>, most = 200): Promise<void> {
  for (let i = 0; i < most && !(await done()); i++) {
    await client.set(`fill ${i}`, 'x'.repeat(100_000), 'EX', 1000).catch(() => undefined)
  }
}

after(leakCheck)
