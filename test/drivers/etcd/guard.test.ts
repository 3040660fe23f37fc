// The token used on the store itself: a user's transaction that is carried out only while the lease's place is there.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError } from 'holdfast'
import { base64 } from '../../../src/drivers/etcd/keys.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy } from '../../support/proxy.js'
import { startEtcd } from '../../support/servers/etcd.js'
import { locksOf, placesOf, valueAt } from './support/scene.js'

const server = await startEtcd()
after(() => server.stop())

const write = (value: string) => ({
  success: [{ request_put: { key: base64('data'), value: base64(value) } }],
})

test('a guarded transaction writes while the lease is held, and not a moment longer', async (t) => {
  const [one, two] = [locksOf(t, server.url), locksOf(t, server.url)]
  const old = await one.locks.mutex('m').acquire()
  assert.deepEqual((await one.store.guardTxn(old, write('first'))).succeeded, true)
  // Taken away behind its back: it does not know yet, the store does.
  const guard = one.store.guard(old)
  await server.ask('/v3/kv/deleterange', { key: (await placesOf(server, 'm'))[0]?.key })
  const next = await two.locks.mutex('m').acquire()
  await assert.rejects(one.store.guardTxn(old, write('stale')), { code: 'STALE_TOKEN', token: old.token })
  assert.equal((await two.store.guardTxn(next, write('second'))).succeeded, true)
  assert.equal(await valueAt(server, 'data'), 'second')
  // The same comparison in a transaction sent with any other client.
  const reply = await server.ask('/v3/kv/txn', { compare: [guard], ...write('stale') })
  assert.equal(reply['succeeded'], undefined)
  await next.release()
  await assert.rejects(two.store.guardTxn(next, write('late')), { code: 'STALE_TOKEN' })
  assert.throws(() => two.store.guard(next), { code: 'STALE_TOKEN' })
  assert.equal(await valueAt(server, 'data'), 'second')
})

test('a lease whose guard was used is not passed on: its comparison ends with it', async (t) => {
  const { locks, store } = locksOf(t, server.url)
  const old = await locks.mutex('p').acquire()
  const waits = [locks.mutex('p').acquire(), locks.mutex('p').acquire()]
  const guard = store.guard(old)
  await old.release()
  const next = await waits[0]
  const reply = await server.ask('/v3/kv/txn', { compare: [guard], ...write('stale') })
  assert.equal(reply['succeeded'], undefined)
  // Of a lease that was passed on, too, the guard is its own.
  await next?.release()
  const last = await waits[1]
  assert.throws(() => next && store.guard(next), { code: 'STALE_TOKEN' })
  assert.ok(last && (await store.guardTxn(last, write('passed on'))).succeeded)
  assert.equal(await valueAt(server, 'data'), 'passed on')
  await last.release()
})

test('an own comparison that the first try itself has made false is no refusal: the reply was lost, the outcome is unknown', async (t) => {
  await using proxy = await startProxy({ port: server.port })
  const { locks, store } = locksOf(t, `http://127.0.0.1:${proxy.port}`)
  const lease = await locks.mutex('lost').acquire()
  const absent = { key: base64('counted'), target: 'CREATE', result: 'EQUAL', create_revision: '0' } as const
  const counting = {
    compare: [absent],
    success: [{ request_put: { key: base64('counted'), value: base64('1') } }],
  }
  proxy.down.hold()
  const txn = store.guardTxn(lease, counting).catch((error: unknown) => error)
  await proxy.down.holding()
  assert.equal(await valueAt(server, 'counted'), '1')
  proxy.reset()
  proxy.down.pass()
  const error = await txn
  assert.ok(error instanceof BackendError, JSON.stringify(error))
  assert.equal(error.code, 'UNAVAILABLE')
  assert.equal(error.outcome, 'unknown')
  assert.equal((await store.guardTxn(lease, counting)).succeeded, false)
  await lease.release()
})

test("the user's own comparisons are distinguished from a stale token", async (t) => {
  const { locks, store } = locksOf(t, server.url)
  const lease = await locks.mutex('own').acquire()
  const missing = {
    key: base64('never written'),
    target: 'CREATE',
    result: 'GREATER',
    create_revision: '0',
  } as const
  const { succeeded, responses } = await store.guardTxn(lease, {
    compare: [missing],
    ...write('no'),
    failure: [{ request_range: { key: base64('data') } }],
  })
  assert.equal(succeeded, false)
  assert.equal(responses.length, 1)
  assert.equal(responses[0]?.response_range?.kvs?.[0]?.key, base64('data'))
  await lease.release()
})

test('a guard follows the lease it was created for, also after the lease was moved to a longer ttl', async (t) => {
  const { locks, store } = locksOf(t, server.url)
  const lease = await locks.mutex('moved').acquire({ ttl: 10_000 })
  await lease.extend(60_000)
  assert.ok(lease.remaining() > 50_000)
  assert.equal((await store.guardTxn(lease, write('moved'))).succeeded, true)
  assert.throws(() => store.guard({ name: 'moved', token: lease.token + 1 }), { code: 'STALE_TOKEN' })
  await lease.release()
})

test('of several that were taken in one step, and have one token, each is guarded by its own place', async (t) => {
  const { locks, store } = locksOf(t, server.url)
  const all = await locks.all([locks.mutex('g1'), locks.mutex('g2')]).acquire()
  const [one, two] = all.leases
  assert.ok(one && two && one.token === two.token)
  assert.notEqual(store.guard(one).key, store.guard(two).key)
  await one.release()
  await assert.rejects(store.guardTxn(one, write('given back')), { code: 'STALE_TOKEN', lock: 'g1' })
  assert.equal((await store.guardTxn(two, write('kept'))).succeeded, true)
  assert.equal(await valueAt(server, 'data'), 'kept')
  await all.release()
  assert.throws(() => store.guard(two), { code: 'STALE_TOKEN' })
})

after(leakCheck)
