// The token used on the store itself: a user's transaction that is executed only while the lease holds.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError, createLocks } from 'holdfast'
import { consul } from 'holdfast/consul'
import { leakCheck } from '../../support/leaks.js'
import { startProxy } from '../../support/proxy.js'
import { startConsul } from '../../support/servers/consul.js'
import { until } from '../../support/until.js'
import { endSession, lockOf } from './support/scene.js'

const server = await startConsul()
after(() => server.stop())

const open = () => {
  const store = consul({ url: server.url, minTtl: 1_000 })
  return { store, locks: createLocks(store) }
}
const write = (text: string) => [
  { KV: { Verb: 'set', Key: 'data', Value: Buffer.from(text).toString('base64') } } as const,
]
const data = async () => {
  const [kv] = (await server.ask('GET', '/v1/kv/data')) as { Value: string }[]
  return Buffer.from(kv?.Value ?? '', 'base64').toString()
}

test('a guarded transaction writes while the lease is held, and not a moment longer', async () => {
  const [one, two] = [open(), open()]
  const old = await one.locks.mutex('m').acquire()
  assert.equal((await one.store.guardTxn(old, write('first'))).succeeded, true)
  const guard = one.store.guard(old)
  // Taken away behind its back: it does not know yet, the store does.
  await endSession(server, (await lockOf(server, 'm'))?.Session)
  const next = await two.locks.mutex('m').acquire()
  await assert.rejects(one.store.guardTxn(old, write('stale')), { code: 'STALE_TOKEN', token: old.token })
  assert.equal((await two.store.guardTxn(next, write('second'))).values[0]?.Key, 'data')
  // The same condition in a transaction sent with any other client.
  await assert.rejects(server.ask('PUT', '/v1/txn', JSON.stringify([guard, ...write('stale')])), /409/)
  assert.equal(await data(), 'second')
  await next.release()
  await assert.rejects(two.store.guardTxn(next, write('late')), { code: 'STALE_TOKEN' })
  assert.throws(() => two.store.guard(next), { code: 'STALE_TOKEN' })
  assert.equal(await data(), 'second')
  for (const { locks } of [one, two]) await locks.close()
})

test('an own check that the first try itself has made false is no refusal: the reply was lost, the outcome is unknown', async () => {
  await using proxy = await startProxy({ port: server.port })
  const store = consul({ url: `http://127.0.0.1:${proxy.port}`, minTtl: 1_000 })
  const locks = createLocks(store)
  const lease = await locks.mutex('lost').acquire()
  const counting = [{ KV: { Verb: 'cas', Key: 'counted', Value: 'MQ==', Index: 0 } } as const]
  proxy.down.hold()
  const txn = store.guardTxn(lease, counting).catch((error: unknown) => error)
  await proxy.down.holding()
  assert.equal(((await server.ask('GET', '/v1/kv/counted')) as unknown[]).length, 1)
  proxy.reset()
  proxy.down.pass()
  const error = await txn
  assert.ok(error instanceof BackendError, JSON.stringify(error))
  assert.equal(error.code, 'UNAVAILABLE')
  assert.equal(error.outcome, 'unknown')
  assert.equal((await store.guardTxn(lease, counting)).succeeded, false)
  await lease.release()
  await locks.close()
})

test('the refusal of one of the caller’s own operations is distinguished from a stale token', async () => {
  const { store, locks } = open()
  const lease = await locks.mutex('own').acquire()
  const missing = { KV: { Verb: 'get', Key: 'never written' } } as const
  const { succeeded, error } = await store.guardTxn(lease, [missing, ...write('no')])
  assert.equal(succeeded, false)
  assert.match(error, /doesn't exist/)
  await lease.release()
  await locks.close()
})

test('readers and permits have it too, and it goes with a lease that was moved to a longer ttl', async () => {
  const { store, locks } = open()
  const other = open()
  for (const lock of [
    locks.mutex('moved'),
    locks.readWrite('rw').read,
    locks.semaphore('s', { permits: 2 }),
  ]) {
    const lease = await lock.acquire({ ttl: 2_000 })
    assert.equal((await store.guardTxn(lease, write('before'))).succeeded, true)
    await lease.extend(60_000)
    assert.equal((await store.guardTxn(lease, write('after'))).succeeded, true)
    // What others see is the token that the lease has.
    assert.equal((await other.locks.inspect(lock.name)).holders[0]?.token, lease.token)
    assert.equal(await other.locks.check(lease), true)
    await lease.release()
    await assert.rejects(store.guardTxn(lease, write('late')), { code: 'STALE_TOKEN' })
    assert.equal(await other.locks.check(lease), false)
  }
  for (const { locks: all } of [{ locks }, other]) await all.close()
})

test('a guarded transaction that comes while the lease is being moved waits for that, and is carried out', async (t) => {
  const cable = await startProxy({ port: server.port })
  const store = consul({ url: `127.0.0.1:${cable.port}`, minTtl: 1_000, requestTimeout: 60_000 })
  const locks = createLocks(store)
  t.after(async () => {
    await locks.close()
    await cable.stop()
  })
  const lease = await locks.mutex('on its way').acquire({ autoRenew: false })
  // The move has been carried out; its answer is under way until the transaction has been refused.
  let answers = 0
  cable.down.hold((bytes) => bytes.includes('on its way/.lock') && ++answers === 1)
  const extending = lease.extend(60_000)
  await cable.down.holding()
  const before = cable.down.bytes
  const writing = store.guardTxn(lease, write('meanwhile'))
  writing.catch(() => undefined)
  await until(() => cable.down.bytes > before)
  cable.down.pass()
  assert.equal((await writing).succeeded, true)
  assert.ok((await extending) > 0)
  assert.equal(await lease.release(), 'released')
})

after(leakCheck)
