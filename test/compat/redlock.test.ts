// The scenarios of the test suites of `redlock` 4 and 5, on `holdfast/compat/redlock`: over one server and over three, single and several
// resources, promises and callbacks. What differs is at the end.
// Second tier because the library that it stands in for changes no more.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import Redlock, { ExecutionError, Lock, ResourceLockedError } from 'holdfast/compat/redlock'
import { memory } from 'holdfast/memory'
import { Redis } from 'ioredis'
import { leakCheck } from '../support/leaks.js'
import { startMany } from '../support/servers/redis.js'

const group = await startMany(3)
after(() => group.stop())
let names = 0

/** `quit` of the class ends the clients. */
function over(servers: number, settings?: ConstructorParameters<typeof Redlock>[1]) {
  const clients = group.servers.slice(0, servers).map(({ port }) => new Redis(port))
  const redlock = new Redlock(clients, settings)
  return Object.assign(redlock, { [Symbol.asyncDispose]: () => redlock.quit() })
}

const fresh = (count: number) => Array.from({ length: count }, () => `compat ${++names}`)

for (const servers of [1, 3]) {
  for (const resources of [1, 2]) {
    describe(`redlock over ${servers}, ${resources} at once`, () => {
      const open = (settings?: ConstructorParameters<typeof Redlock>[1]) => over(servers, settings)

      test('acquires, extends and releases', async () => {
        await using redlock = open()
        const asked = fresh(resources)
        const lock = await redlock.acquire(asked, 10_000)
        assert.ok(lock instanceof Lock)
        assert.deepEqual(lock.resources, asked)
        const before = Date.now()
        assert.ok(lock.expiration > before && lock.expiration <= before + 10_000)
        const longer = await lock.extend(20_000)
        assert.equal(longer.value, lock.value)
        assert.equal(lock.expiration, 0)
        assert.ok(longer.expiration > before + 10_000)
        assert.equal((await longer.release()).attempts.length, 1)
        assert.equal(longer.expiration, 0)
        await (await redlock.acquire(asked, 1_000, { retryCount: 0 })).release()
      })

      test('excludes, and says that the resource is locked', async () => {
        await using redlock = open({ retryCount: 1, retryDelay: 50 })
        await using other = open({ retryCount: 1, retryDelay: 50 })
        const [shared = '', ...rest] = fresh(resources)
        const lock = await redlock.acquire([shared, ...rest], 20_000)
        const errors: unknown[] = []
        other.on('error', (error) => errors.push(error))
        const refused = await other.acquire([...fresh(1), shared], 20_000).catch((error) => error)
        assert.ok(refused instanceof ExecutionError && refused instanceof Redlock.LockError)
        const stats = await refused.attempts[0]
        assert.equal(stats?.votesAgainst.size, servers)
        assert.equal(stats.votesFor.size, 0)
        for (const error of stats.votesAgainst.values()) assert.ok(error instanceof ResourceLockedError)
        assert.ok(errors[0] instanceof ResourceLockedError)
        await lock.release()
      })

      test('is granted at once when the lock is released, and when it expires', async () => {
        await using redlock = open({ retryCount: -1 })
        await using other = open({ retryCount: -1 })
        const asked = fresh(resources)
        const lock = await redlock.acquire(asked, 60_000)
        const waiting = other.acquire(asked, 700)
        await lock.release()
        const second = await waiting
        const third = await redlock.acquire(asked, 60_000)
        assert.ok(Date.now() >= second.expiration, 'not before the second has expired')
        await third.release()
      })

      test('refuses to extend or to release what is over', async () => {
        await using redlock = open({ retryCount: 0 })
        const asked = fresh(resources)
        const lock = await redlock.acquire(asked, 60_000)
        await lock.release()
        await assert.rejects(lock.release(), ExecutionError)
        await assert.rejects(lock.extend(60_000), ExecutionError)
        const short = await redlock.acquire(asked, 300)
        await using other = open({ retryCount: -1 })
        await (await other.acquire(asked, 60_000)).release()
        await assert.rejects(short.extend(60_000), ExecutionError)
        await assert.rejects(short.release(), ExecutionError)
      })

      test('using() holds, renews, excludes and releases', async () => {
        await using redlock = open({ retryCount: -1 })
        const asked = fresh(resources)
        let inside = 0
        const once = () =>
          redlock.using(asked, 900, { automaticExtensionThreshold: 300 }, async (signal) => {
            assert.equal(++inside, 1)
            await new Promise((resolve) => setTimeout(resolve, 1_200))
            assert.equal(signal.aborted, false)
            inside--
            return 7
          })
        assert.deepEqual(await Promise.all([once(), once()]), [7, 7])
      })

      test('takes callbacks, as version 4 does', async () => {
        await using redlock = open({ retryCount: 0 })
        const asked = fresh(resources)
        const lock = await new Promise<Lock>((resolve, reject) =>
          redlock.lock(resources === 1 ? (asked[0] ?? '') : asked, 10_000, (error, got) =>
            got === undefined ? reject(error) : resolve(got),
          ),
        )
        assert.deepEqual(lock.resource, asked)
        const busy = await new Promise((resolve) =>
          redlock.lockWithOptions(asked, 10_000, { retryCount: 0 }, resolve).catch(() => undefined),
        )
        assert.ok(busy instanceof Redlock.LockError)
        await new Promise((resolve) => redlock.unlock(lock, resolve))
        const own = await redlock.lock(asked, 1_000)
        const longer = await new Promise<Lock | undefined>((resolve) =>
          own.extend(2_000, (_error, got) => resolve(got)),
        )
        assert.ok(longer instanceof Lock)
        assert.equal(await new Promise((resolve) => longer.unlock(resolve)), null)
        const twice = await new Promise((resolve) => longer.unlock(resolve).catch(() => undefined))
        assert.ok(twice instanceof Redlock.LockError)
      })
    })
  }
}

test('using() aborts its signal with the reason when the lock is lost, and rejects', async () => {
  const store = memory()
  const redlock = new Redlock(store, { retryCount: 0 })
  const { createLocks } = await import('holdfast')
  const operator = createLocks(store)
  const routine = redlock.using(['a'], 5_000, async (signal) => {
    const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    await operator.forceRelease('a')
    await aborted
    assert.equal((signal.error as Error).name, 'LeaseLostError')
  })
  await assert.rejects(routine, ExecutionError)
  await operator.close()
  await redlock.quit()
})

test('using() whose routine fails after the lock is lost rejects as the package does, and keeps the error of the routine', async () => {
  const store = memory()
  const redlock = new Redlock(store)
  const { createLocks } = await import('holdfast')
  const operator = createLocks(store)
  const own = new Error('of the routine')
  const routine = (lose: boolean) =>
    redlock.using(['a'], 5_000, async () => {
      if (lose) await operator.forceRelease('a')
      throw own
    })
  await assert.rejects(routine(false), (error) => error === own)
  await assert.rejects(routine(true), (error) => error instanceof ExecutionError && error.cause === own)
  await operator.close()
  await redlock.quit()
})

test('a lock is extended and released through another instance, as in the package', async () => {
  const store = memory()
  const [redlock, other] = [new Redlock(store), new Redlock(store)]
  const lock = await redlock.acquire(['a'], 5_000)
  const longer = await other.extend(lock, 6_000)
  await other.release(longer)
  await assert.rejects(redlock.release(longer), /no longer held/)
  await (await other.acquire(['a'], 5_000, { retryCount: 0 })).release()
  await Promise.all([redlock.quit(), other.quit()])
})

test('unreachable servers are distinguished from a lock that is taken', async () => {
  const client = new Redis(1, { retryStrategy: null, lazyConnect: true })
  client.on('error', () => undefined)
  const redlock = new Redlock([client], { retryCount: 1, retryDelay: 100 })
  const seen: unknown[] = []
  redlock.on('clientError', (error) => seen.push(error))
  const refused = await redlock.acquire(['a'], 1_000).catch((error) => error)
  assert.ok(refused instanceof ExecutionError)
  const [against] = [...((await refused.attempts[0])?.votesAgainst.values() ?? [])]
  assert.ok(against !== undefined && !(against instanceof ResourceLockedError))
  assert.equal(seen.length, 1)
  await redlock.quit().catch(() => undefined)
})

test('unusable input is refused before anything is sent', () => {
  assert.throws(() => new Redlock([]), /at least one client/)
  assert.throws(() => new Redlock([{} as Redis, {} as Redis]), /three or more/)
  const redlock = new Redlock(memory())
  assert.throws(() => new Redlock(memory(), { retryCuont: 1 } as object), /unknown setting "retryCuont"/)
  assert.throws(() => new Redlock(memory(), {}, { acquireScript: 'x' }), /no scripts/)
  return Promise.all([
    assert.rejects(redlock.acquire(['a'], 1_000, { retryDelay: -1 }), /retryDelay must be/),
    assert.rejects(redlock.acquire(['a'], 1_000, { retryDelay: Infinity }), /retryDelay must be/),
    assert.rejects(redlock.acquire([], 1_000), /one or more resources/),
    assert.rejects(redlock.acquire(['a'], 0.5), /whole number/),
    assert.rejects(
      redlock.using(['a'], 500, async () => 1),
      /automaticExtensionThreshold/,
    ),
  ]).then(() => redlock.quit())
})

after(leakCheck)
