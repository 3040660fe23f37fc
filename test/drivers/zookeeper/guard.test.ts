// The token used on the ensemble itself: a user's multi that is executed only while the lease holds.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError, createLocks } from 'holdfast'
import { zookeeper } from 'holdfast/zookeeper'
import { leakCheck } from '../../support/leaks.js'
import { startProxy } from '../../support/proxy.js'
import { startZookeeper } from '../../support/servers/zookeeper.js'

const server = await startZookeeper()
after(() => server.stop())

const open = () => {
  const store = zookeeper({ servers: server.address, sessionTimeout: 10_000, tickTime: 500 })
  return { store, locks: createLocks(store) }
}
const write = (data: string) => [{ type: 'setData', path: '/data', data, version: -1 }] as const

test('a guarded multi writes while the lease is held, and not a moment longer', async () => {
  const [one, two] = [open(), open()]
  const old = await one.locks.mutex('m').acquire()
  assert.equal(await one.store.guardMulti(old, [{ type: 'create', path: '/data', data: 'first' }]), true)
  const { path } = one.store.guard(old)
  assert.match(path, /^\/holdfast\/m\/_c_[0-9a-f]{32}-lock-\d{10}$/)
  // Taken away behind its back.
  assert.equal(await two.locks.forceRelease('m'), 1)
  const next = await two.locks.mutex('m').acquire()
  await assert.rejects(one.store.guardMulti(old, write('stale')), { code: 'STALE_TOKEN', token: old.token })
  assert.equal(await two.store.guardMulti(next, write('second')), true)
  await next.release()
  await assert.rejects(two.store.guardMulti(next, write('late')), { code: 'STALE_TOKEN' })
  assert.throws(() => two.store.guard(next), { code: 'STALE_TOKEN' })
  // Written to twice: the first was its creation.
  const third = await two.locks.mutex('m').acquire()
  const check = { type: 'check', path: '/data', version: 1 } as const
  assert.equal(await two.store.guardMulti(third, [check]), true)
  await third.release()
  for (const { locks } of [one, two]) await locks.close()
})

test('a lease whose guard was used is not passed on: its check ends with it', async () => {
  const { store, locks } = open()
  const old = await locks.mutex('p').acquire()
  const waits = [locks.mutex('p').acquire(), locks.mutex('p').acquire()]
  const { path } = store.guard(old)
  await old.release()
  const next = await waits[0]
  assert.ok(next)
  // Passed on without having been guarded.
  await next.release()
  const last = await waits[1]
  assert.ok(last)
  assert.throws(() => store.guard(next), { code: 'STALE_TOKEN' })
  assert.notEqual(store.guard(last).path, path)
  assert.equal(await store.guardMulti(last, write('passed on')), true)
  await last.release()
  await locks.close()
})

test('a multi whose reply is lost may or may not have been executed', async () => {
  await using proxy = await startProxy({ port: server.port })
  const store = zookeeper({ servers: `127.0.0.1:${proxy.port}`, sessionTimeout: 10_000, tickTime: 500 })
  const locks = createLocks(store)
  const lease = await locks.mutex('lost').acquire()
  const other = open()
  const direct = await other.locks.mutex('direct').acquire()
  const isThere = () => other.store.guardMulti(direct, [{ type: 'check', path: '/counted', version: -1 }])
  proxy.down.hold()
  const multi = store
    .guardMulti(lease, [{ type: 'create', path: '/counted', data: '1' }])
    .catch((error: unknown) => error)
  // What comes first may be a reply to something else.
  for (;;) {
    await proxy.down.holding()
    if (await isThere()) break
    proxy.down.letGo(1)
  }
  proxy.reset()
  proxy.down.pass()
  const error = await multi
  assert.ok(error instanceof BackendError, JSON.stringify(error))
  assert.equal(error.code, 'UNAVAILABLE')
  assert.equal(error.outcome, 'unknown')
  await lease.release()
  await direct.release()
  for (const one of [locks, other.locks]) await one.close()
})

test('the refusal of one of the caller’s own operations is distinguished, and nothing is executed', async () => {
  const { store, locks } = open()
  const lease = await locks.mutex('own').acquire()
  const made = { type: 'create', path: '/half', data: 'x' } as const
  assert.equal(await store.guardMulti(lease, [made, { type: 'check', path: '/missing', version: -1 }]), false)
  assert.equal(await store.guardMulti(lease, [{ type: 'delete', path: '/half', version: -1 }]), false)
  assert.equal(await store.guardMulti(lease, [made, { type: 'delete', path: '/half', version: 0 }]), true)
  await lease.release()
  await locks.close()
})

test('a writer that has become a reader keeps it', async () => {
  const { store, locks } = open()
  const lock = locks.readWrite('rw')
  await lock.write.run(async (lease) => {
    const before = store.guard(lease).path
    const reading = await lock.read.acquire({ reentrant: lease })
    await lease.release()
    assert.notEqual(store.guard(reading).path, before)
    assert.equal(await store.guardMulti(reading, write('as a reader')), true)
    await reading.release()
  })
  await locks.close()
})

after(leakCheck)
