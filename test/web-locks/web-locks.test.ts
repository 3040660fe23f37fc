import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks, type DriverFactory, type Traits } from 'holdfast'
import { memory } from 'holdfast/memory'
import { lockManager } from 'holdfast/web-locks'
import { leakCheck } from '../support/leaks.js'
import { overStores } from './clauses.js'
import { stores } from './stores.js'

overStores(stores)

/** A driver without readers, list and forced release, as some stores are. */
const plain: DriverFactory = (env) => {
  const { list: _, forceRelease: __, ...driver } = memory()(env)
  return { ...driver, traits: { ...driver.traits, modes: ['exclusive'], fair: false } as Traits }
}

test('an unsupported feature of the driver is a NotSupportedError that says so, and the rest works', async () => {
  await using locks = createLocks(plain)
  const manager = lockManager(locks)
  const notSupported = (what: RegExp) => ({ name: 'NotSupportedError', message: what })
  await assert.rejects(manager.query(), notSupported(/list of locks/))
  await assert.rejects(
    manager.request('a', { mode: 'shared' }, () => undefined),
    notSupported(/shared mode/),
  )
  await manager.request('a', async () => {
    await assert.rejects(
      manager.request('a', { steal: true }, () => undefined),
      notSupported(/forced release/),
    )
    assert.equal(await manager.request('a', { ifAvailable: true }, (lock) => lock), null)
  })
  assert.equal(await manager.request('a', () => 'free'), 'free')
})

test('a lock that is lost otherwise rejects like a stolen one', async () => {
  await using locks = createLocks(memory(), { ttl: 1000 })
  const manager = lockManager(locks, { ttl: 100 })
  const result = manager.request('a', () => {
    const end = performance.now() + 200
    while (performance.now() < end); // the event loop is paused for longer than the lease
    return 'returned all the same'
  })
  await assert.rejects(result, { name: 'AbortError', message: /stolen or lost/ })
})

test('query() names the process that holds a web lock without a manager', async () => {
  await using locks = createLocks(memory())
  const manager = lockManager(locks)
  await using _ = await locks.mutex('web-lock/gate/a').acquire()
  const [holder] = (await locks.inspect('web-lock/gate/a')).holders
  assert.match(holder?.client ?? '', /:\d+$/)
  const { held } = await manager.query()
  assert.deepEqual(held, [{ name: 'a', mode: 'exclusive', clientId: holder?.client }])
})

test('bad options of a manager are reported by name', async () => {
  await using locks = createLocks(memory())
  assert.throws(() => lockManager(locks, { clientId: 'a b' }), /clientId must be .* got "a b"/)
  assert.throws(() => lockManager({} as typeof locks), /lockManager takes what createLocks\(driver\) returns/)
})

after(leakCheck)
