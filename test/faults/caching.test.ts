// Processes that die or freeze with a cached lock (`linger`): nobody holds it, but the store still counts it as theirs.
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { Redis } from 'ioredis'
import { local } from '../../src/drivers/local/index.js'
import { redis } from '../../src/drivers/redis/index.js'
import { memoryFences, StaleTokenError } from '../../src/guard/index.js'
import { createLocks, type DriverFactory, type Locks } from '../../src/index.js'
import { endAll, freshDirectory } from '../drivers/local/processes.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'
import { type CachingProcess, type Store, startCaching } from './support/caching-process.js'

const server = await startRedis()
after(async () => {
  await server.stop()
  await endAll()
})

/** Longer than any test. */
const linger = 600_000
const forEver = { wait: Number.POSITIVE_INFINITY }

interface Way {
  readonly store: () => Store
  readonly driver: (t: TestContext, store: Store) => DriverFactory
  /** Of the killed holder, in ms. On `local` so long that a waiter that is served cannot have waited for its expiry. */
  readonly ttl: number
  /** How long a waiter queues for it, in ms. */
  readonly wait: number
}

const ways: Readonly<Record<string, Way>> = {
  redis: {
    store: () => ({ port: server.port }),
    driver: (t) => {
      const client = new Redis(server.port, '127.0.0.1', { disconnectTimeout: 100 })
      t.after(() => client.disconnect())
      return redis({ client, maxTtl: 600_000 })
    },
    ttl: 2_000,
    ...forEver,
  },
  local: {
    store: () => ({ directory: freshDirectory() }),
    driver: (_, store) => local(store as { directory: string }),
    ttl: 600_000,
    wait: 300_000,
  },
}

/** A lock object of this process; on `local` this process has the broker. */
async function open(t: TestContext, { store, driver }: Way): Promise<[Locks, CachingProcess]> {
  const where = store()
  const locks = createLocks(driver(t, where))
  t.after(() => locks.close())
  await (await locks.mutex('opens the store').acquire(forEver)).release()
  return [locks, startCaching(t, where)]
}

/** For how many ms more the store has `name` as held; undefined: it is free. */
async function heldFor(locks: Locks, name: string): Promise<number | undefined> {
  const { holders } = await locks.inspect(name)
  return holders.find(({ expiresIn }) => expiresIn > 0)?.expiresIn
}

/** Freezes the process while it has `name` cached. Resolves with the token that was last in use. */
async function frozen(locks: Locks, one: CachingProcess, name: string, ttl: number): Promise<number> {
  return until(async () => {
    one.thaw()
    await one.acquire(name, { ttl, linger, ...forEver })
    await one.release(name)
    // Once more: what was cached is used again.
    const token = await one.acquire(name, { ttl, linger, ...forEver })
    await one.release(name)
    one.freeze()
    return (await heldFor(locks, name)) !== undefined && token
  })
}

for (const [name, way] of Object.entries(ways)) {
  const { ttl, wait } = way
  describe(name, () => {
    test('a process with a cached lock is killed with -9: others wait no longer than if it had held the lock', async (t) => {
      const [locks, one] = await open(t, way)
      await one.acquire('held', { ttl, ...forEver })
      const token = await frozen(locks, one, 'cached', ttl)
      // Stands in the queue already, but nobody can learn of it any more.
      let isServed = false
      const waited = locks.mutex('cached').acquire({ ttl, wait })
      void waited.then(() => {
        isServed = true
      })
      // A machine that stalls may have it served at the end of the ttl already.
      await until(async () => isServed || (await locks.inspect('cached')).waiters.length === 1)
      await one.kill()
      for (const lock of ['held', 'cached']) assert.ok(((await heldFor(locks, lock)) ?? 0) <= ttl)
      const lease = await waited
      assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
      assert.ok(await (await locks.mutex('held').acquire({ wait })).release())
      await lease.release()
    })

    test('the next client after a process was killed with a cached lock gets it, with a greater token', async (t) => {
      const [locks, one] = await open(t, way)
      const token = await frozen(locks, one, 'left', ttl)
      await one.kill()
      const lease = await locks.mutex('left').acquire({ wait })
      assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
      await lease.release()
    })

    test('a process that was frozen past its deadline does not reuse its cached lock', async (t) => {
      const [locks, one] = await open(t, way)
      const guard = memoryFences()
      const ttl = 2_000
      const options = { ttl, linger, ...forEver }
      const token = await frozen(locks, one, 'frozen', ttl)
      await guard.admit({ name: 'frozen', token })
      const lease = await locks.mutex('frozen').acquire({ ttl: 600_000, ...forEver })
      assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
      await guard.admit({ name: 'frozen', token: lease.token })
      one.thaw()
      assert.equal(await one.tryAcquire('frozen', { ttl, linger }), 0)
      const next = one.acquire('frozen', options)
      // It asks the store, which has it wait.
      await until(async () => (await locks.inspect('frozen')).waiters.length === 1)
      await assert.rejects(guard.admit({ name: 'frozen', token }), StaleTokenError)
      assert.ok(lease.isHeld)
      await lease.release()
      const last = await next
      assert.ok(last > lease.token, `token ${last} came after ${lease.token}`)
      await guard.admit({ name: 'frozen', token: last })
    })
  })
}

after(leakCheck)
