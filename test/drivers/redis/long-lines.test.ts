// A queue longer than one run of a script examines: whatever is ahead of live waiters, they get the lock at once. None of their timers fires here.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { claim, once, waiting } from '../support/asking.js'
import { commands, driverOf, peer, reachable, withoutLooking } from './support/peer.js'

const server = await startRedis()
after(() => server.stop())

const quiet = { env: { clock: withoutLooking() } }
/** What one run looks at. */
const most = 32
const shared = { mode: { kind: 'shared' } as const, ttl: 30_000 }

/** So many are queued for `name` and have died since, in `processes` processes. */
async function theDead(t: TestContext, name: string, waiters: number, processes: number): Promise<void> {
  const dying = Array.from({ length: processes }, () => {
    const subscriber = peer(t, server.port).client
    return { subscriber, ...driverOf(t, server.port, { subscriber }) }
  })
  const waits = Array.from({ length: waiters }, () => waiting())
  const lost = waits.map((wait, i) =>
    dying[i % processes]?.driver.acquire(claim(name, { ttl: 600_000 }), wait).catch(() => undefined),
  )
  await reachable(server, name, waiters)
  const listening = async () => ((await server.cli('PUBSUB', 'CHANNELS', 'hf:c:*')) as string[]).length
  const before = await listening()
  for (const { client, subscriber } of dying) {
    client.disconnect()
    subscriber.disconnect()
  }
  await until(async () => (await listening()) === before - processes)
  t.after(async () => {
    for (const wait of waits) wait.end()
    await Promise.all(lost)
  })
}

test('more holders than a thousand are listed, and of more waiters it is said how many there are', async (t) => {
  const [holder, crowd] = [peer(t, server.port), driverOf(t, server.port, quiet)]
  const { read } = holder.locks.readWrite('crowd')
  const readers = await Promise.all(Array.from({ length: 1_010 }, () => read.acquire({ wait: 60_000 })))
  const waits = Array.from({ length: 1_005 }, () => waiting())
  const asked = waits.map((wait) =>
    crowd.driver.acquire(claim('crowd', { ttl: 600_000 }), wait).catch(() => undefined),
  )
  await reachable(server, 'crowd', waits.length)
  const standing = await holder.locks.inspect('crowd')
  assert.equal(standing.holders.length, readers.length)
  assert.equal(standing.waiters.length + (standing.unlisted ?? 0), waits.length)
  for (const wait of waits) wait.end()
  await Promise.all(asked)
  await Promise.all(readers.map((reader) => reader.release()))
})

for (const [waiters, processes] of [
  [32, 1],
  [64, 1],
  [200, 1],
  [200, 25],
] as const) {
  test(`${waiters} dead waiters of ${processes} processes are ahead of a live one: the release and one poll`, async (t) => {
    const name = `dead ${waiters} ${processes}`
    const holder = peer(t, server.port, quiet)
    const lease = await holder.locks.mutex(name).acquire()
    await theDead(t, name, waiters, processes)
    const asked = driverOf(t, server.port, quiet).driver.acquire(claim(name, { ttl: 30_000 }), waiting())
    await reachable(server, name, waiters + 1)
    await commands(holder.client)
    const began = performance.now()
    await lease.release()
    const grant = await asked
    const took = performance.now() - began
    const { evalsha = 0 } = await commands(holder.client)
    assert.ok(grant)
    // Beside the two: one for each 32 that were looked at.
    assert.ok(evalsha <= 2 + Math.ceil((waiters + 1) / most), `${evalsha} commands`)
    t.diagnostic(`${took.toFixed(1)} ms`)
    assert.equal(await grant.release(), 'released')
  })
}

test('200 dead waiters ahead of a polling waiter, and of a try: both are served at once', async (t) => {
  const holder = peer(t, server.port, quiet)
  const lease = await holder.locks.mutex('dead polls').acquire()
  await theDead(t, 'dead polls', 200, 1)
  const { driver } = driverOf(t, server.port, { subscriber: false })
  const asked = driver.acquire(claim('dead polls', { ttl: 30_000 }), waiting())
  await lease.release()
  const grant = await asked
  assert.ok(grant)
  assert.equal(await grant.release(), 'released')
  // Those who died not long ago still keep their places.
  assert.ok((await driver.inspect('dead polls')).waiters.length > most)
  const tried = await holder.driver.acquire(claim('dead polls', { ttl: 30_000 }), once())
  assert.equal(await tried?.release(), 'released')
})

test('100 readers behind one writer are all admitted when it leaves', async (t) => {
  const { locks, client } = peer(t, server.port, quiet)
  const writer = await locks.readWrite('readers').write.acquire()
  const { driver } = driverOf(t, server.port, quiet)
  const asked = Array.from({ length: 100 }, () => driver.acquire(claim('readers', shared), waiting()))
  await reachable(server, 'readers', 100)
  await commands(client)
  await writer.release()
  const readers = await Promise.all(asked)
  const { evalsha = 0 } = await commands(client)
  // The asks of those who are told together go out together.
  assert.ok(evalsha <= 1 + 100 + Math.ceil(100 / most), `${evalsha} commands`)
  for (const reader of readers) assert.equal(await reader?.release(), 'released')
})

test('100 readers are admitted when a writer before them becomes a reader, or loses the lock by force', async (t) => {
  const { driver } = driverOf(t, server.port, quiet)
  const others = driverOf(t, server.port, quiet).driver
  for (const end of ['downgrade', 'force', 'cancel'] as const) {
    const name = `readers ${end}`
    const writer = await driver.acquire(claim(name, { ttl: 30_000 }), waiting())
    const next = waiting()
    const second = end === 'cancel' ? others.acquire(claim(name, { ttl: 30_000 }), next) : undefined
    if (second !== undefined) await reachable(server, name, 1)
    const asked = Array.from({ length: 100 }, () => others.acquire(claim(name, shared), waiting()))
    await reachable(server, name, second === undefined ? 100 : 101)
    if (end === 'downgrade') await writer?.downgrade?.()
    else if (end === 'force') assert.equal(await driver.forceRelease?.(name), 1)
    else {
      // A reader holds, a writer waits before the hundred: when it gives up, they come in.
      await writer?.downgrade?.()
      next.end()
      assert.equal(await second, undefined)
    }
    const readers = await Promise.all(asked)
    await Promise.all([...readers.map((reader) => reader?.release()), writer?.release()])
  }
})

test('after a restart with its data, whom a holder that only held lets in is notified', async (t) => {
  const own = await startRedis({ persistence: 'aof-always' })
  t.after(() => own.stop())
  const ttl = 30_000
  const options = { maxTtl: ttl, ttl }
  const [a, b, c] = [peer(t, own.port, options), peer(t, own.port, options), peer(t, own.port, options)]
  const lease = await a.locks.mutex('restarted').acquire()
  await own.restart()
  const asked = b.locks.mutex('restarted').acquire()
  // Nothing is granted by a server that may have forgotten; from then on the lease alone is in the way.
  await c.locks.mutex('another').run(() => undefined)
  const record = async () => String(await own.cli('HVALS', 'hf:{restarted}'))
  const before = await record()
  await until(async () => (await record()) !== before && (await record()).includes(' hf:c:'))
  const began = performance.now()
  assert.equal(await lease.release(), 'released')
  const next = await asked
  const took = performance.now() - began
  // It looks by itself when the lease runs out.
  assert.ok(took < ttl / 2, `${took} ms`)
  await next.release()
})

test('1,000 permits whose holders died are reclaimed some at a time, and the next waiter polls again at once', async (t) => {
  const mode = { kind: 'permits', take: 1, of: 1_000 } as const
  const { driver, client } = driverOf(t, server.port, quiet)
  const all = Array.from({ length: 1_000 }, () =>
    driver.acquire(claim('died', { mode, ttl: 2_000 }), waiting()),
  )
  await Promise.all(all)
  const other = driverOf(t, server.port, quiet).driver
  await until(async () => {
    const [first] = (await other.inspect('died')).holders
    return (
      first !== undefined && (await other.inspect('died')).holders.every(({ expiresIn }) => expiresIn < 0)
    )
  })
  await client.config('RESETSTAT')
  const grant = await other.acquire(claim('died', { mode: { ...mode, take: 1_000 }, ttl: 30_000 }), waiting())
  const [, calls, usec] =
    /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(await client.info('commandstats')) ?? []
  assert.ok(grant)
  assert.ok(Number(calls) >= 8 && Number(calls) <= 10, `${calls} commands`)
  t.diagnostic(`${calls} scripts, ${Number(usec) / Number(calls)} µs each`)
  assert.equal(await grant.release(), 'released')
})

after(leakCheck)
