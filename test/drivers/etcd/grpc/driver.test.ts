// What is special about gRPC: how many calls and streams a lock costs, what becomes of garbled answers, and what is no gRPC at all.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createServer } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import * as grpc from '@grpc/grpc-js'
import type { Grant } from '../../../../src/core/driver.js'
import { type EtcdOptions, etcd } from '../../../../src/drivers/etcd/index.js'
import { leakCheck } from '../../../support/leaks.js'
import { startEtcd } from '../../../support/servers/etcd.js'
import { until } from '../../../support/until.js'
import { never, once, waiting } from '../../support/asking.js'
import { waitsInVain } from '../../support/in-vain.js'
import { claim } from '../../support/session-store.js'
import { tapped } from '../support/over-grpc.js'
import { driverOf, locksOf, type More, placesOf } from '../support/scene.js'

const server = await startEtcd()
after(() => server.stop())

/** So long that neither a renewal nor the proof of a lease that is no longer new falls into what is counted. */
const ttl = 600_000

function counted(t: TestContext, more: More = {}) {
  const tap = tapped()
  const driver = driverOf(t, server.url, { grpc: tap.module, ...more })
  const during = async (work: () => Promise<unknown>) => {
    const from = tap.made.length
    await work()
    return tap.made.slice(from)
  }
  return { tap, driver, during }
}

/** How many watches the server serves. */
async function watchers(): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { headers: { connection: 'close' } })).text()
  return Number(/^etcd_debugging_mvcc_watcher_total (\S+)$/m.exec(text)?.[1])
}

test('an uncontended lock costs two calls: one transaction and one removal', async (t) => {
  const { driver, during } = counted(t)
  const pair = async () => void (await (await driver.acquire(claim('free', { ttl }), once()))?.release())
  await pair()
  assert.deepEqual(await during(pair), ['Txn', 'DeleteRange'])
})

test('many locks of one process are renewed with one keepalive and one read', async (t) => {
  const { driver, during } = counted(t)
  const grants: Grant[] = []
  for (let i = 0; i < 60; i++) {
    const grant = await driver.acquire(claim(`many ${i}`, { ttl }), once())
    assert.ok(grant)
    grants.push(grant)
  }
  const made = await during(() =>
    Promise.all(grants.map((grant) => grant.renew(ttl, new AbortController().signal))),
  )
  assert.deepEqual(made, ['LeaseKeepAlive', 'Txn'])
  await Promise.all(grants.map((grant) => grant.release()))
})

test('with a lease for each lock, keepalives that are due together go over one stream, and each has its own answer', async (t) => {
  const { tap, driver, during } = counted(t, { lease: 'lock' })
  const grants: Grant[] = []
  for (let i = 0; i < 20; i++) {
    const grant = await driver.acquire(claim(`own ${i}`, { ttl }), once())
    assert.ok(grant)
    grants.push(grant)
  }
  const [place] = await placesOf(server, 'own 7')
  await server.ask('/v3/lease/revoke', { ID: place?.lease })
  const renewed: (number | undefined)[] = []
  const made = await during(async () => {
    renewed.push(
      ...(await Promise.all(grants.map((grant) => grant.renew(ttl, new AbortController().signal)))),
    )
  })
  assert.equal(made.filter((call) => call === 'LeaseKeepAlive').length, 1)
  assert.equal(tap.written['LeaseKeepAlive'], 20)
  assert.deepEqual(
    renewed.flatMap((until, i) => (until === undefined ? [i] : [])),
    [7],
  )
  await Promise.all(grants.map((grant) => grant.release()))
})

test('the watches of a process go over one stream, and are cancelled with their waits', async (t) => {
  const { tap, driver } = counted(t)
  const holder = driverOf(t, server.url)
  const names = Array.from({ length: 50 }, (_, i) => `watched ${i}`)
  const held = await Promise.all(names.map((name) => holder.acquire(claim(name, { ttl }), once())))
  const waits = names.map(() => waiting())
  const grants = names.map((name, i) =>
    driver.acquire(claim(name, { ttl }), waits[i] as ReturnType<typeof waiting>),
  )
  await until(async () => (await watchers()) === 50)
  assert.equal(tap.made.filter((call) => call === 'Watch').length, 1)
  for (const wait of waits.slice(0, 25)) wait.end()
  await until(async () => (await watchers()) === 25)
  await Promise.all(held.map((grant) => grant?.release()))
  for (const [i, grant] of (await Promise.all(grants)).entries()) {
    assert.equal(grant === undefined, i < 25)
    await grant?.release()
  }
  await until(async () => (await watchers()) === 0)
})

test('a hand-over costs two calls', async (t) => {
  const { tap, driver } = counted(t)
  const first = await driver.acquire(claim('crowd', { ttl }), waiting())
  const other = driverOf(t, server.url, { grpc: tap.module })
  const waits = other.acquire(claim('crowd', { ttl }), waiting())
  await until(async () => (await watchers()) === 1)
  const from = tap.made.length
  await first?.release()
  const next = await waits
  assert.deepEqual(tap.made.slice(from), ['DeleteRange', 'Txn'])
  await next?.release()
})

test('a process that has released its locks ends by itself, although it did not close them', async () => {
  const url = (path: string) => JSON.stringify(new URL(path, import.meta.url).href)
  const program = `
    import { createLocks } from ${url('../../../../src/index.js')}
    import { makeOverGrpc } from ${url('../support/in-child.js')}
    const locks = createLocks(makeOverGrpc([${JSON.stringify(server.url)}]))
    const lease = await locks.mutex('ends').acquire({ ttl: 60_000 })
    const next = locks.mutex('ends').acquire()
    await lease.release()
    await (await next).release()
    console.log('released')`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program])
  assert.equal(stdout, 'released\n')
})

const garbled: Readonly<Record<string, (answer: Buffer) => Buffer>> = {
  'half of it': (answer) => answer.subarray(0, answer.length / 2),
  nothing: () => Buffer.alloc(0),
  'a success without a revision': () => Buffer.from([0x0a, 0x00, 0x10, 0x01]),
  // Revision 5, succeeded.
  'a success without its results': () => Buffer.from([0x0a, 0x02, 0x18, 0x05, 0x10, 0x01]),
  noise: (answer) => answer.map((byte) => byte ^ 0xff) as Buffer,
}
for (const [what, make] of Object.entries(garbled)) {
  test(`a reply of which ${what} is left is not a grant, and the lock is granted once replies are complete`, async (t) => {
    const tap = tapped()
    const { locks } = locksOf(t, server.url, { grpc: tap.module })
    const direct = locksOf(t, server.url).locks
    await locks.mutex('warm').run(() => undefined)
    tap.garble = (path, answer) => (path.endsWith('/Txn') ? make(answer) : answer)
    const name = `garbled, ${what}`
    await waitsInVain(locks, locks.mutex(name), /garbled/)
    tap.garble = (_path, answer) => answer
    const lease = await locks.mutex(name).acquire({ wait: 30_000 })
    const { holders } = await direct.inspect(name)
    assert.deepEqual(
      holders.map(({ token }) => token),
      [lease.token],
    )
    assert.equal(await lease.release(), 'released')
  })
}

test('garbled keepalives keep nothing, and garbled watches are made up for', async (t) => {
  const tap = tapped()
  const driver = driverOf(t, server.url, { grpc: tap.module })
  const holder = await driverOf(t, server.url).acquire(claim('watched', { ttl: 60_000 }), once())
  const grant = await driver.acquire(claim('kept', { ttl: 60_000 }), once())
  tap.garble = (path, answer) => (/KeepAlive|Watch/.test(path) ? answer.subarray(1) : answer)
  const before = grant?.validUntil
  await assert.rejects(grant?.renew(60_000, never) ?? Promise.resolve(), {
    code: 'BACKEND',
    message: /garbled/,
  })
  assert.equal(grant?.validUntil, before)
  const waits = driver.acquire(claim('watched', { ttl: 60_000 }), waiting())
  await until(async () => (await placesOf(server, 'watched')).length === 2)
  await holder?.release()
  assert.equal(await (await waits)?.release(), 'released')
  tap.garble = (_path, answer) => answer
  assert.ok((await grant?.renew(60_000, never)) !== undefined)
  await grant?.release()
})

test('your own transaction goes over gRPC as it does over the gateway', async (t) => {
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const [key, value] = [base64('guarded over gRPC'), base64('1')]
  const both = [locksOf(t, server.url), locksOf(t, server.url, { grpc })]
  const answers = []
  for (const { locks, store } of both) {
    const lease = await locks.mutex('guarding').acquire()
    const compare = [{ key, target: 'VERSION', result: 'LESS', version: '100' }] as const
    const success = [{ request_put: { key, value } }, { request_range: { key } }]
    const { succeeded, responses } = await store.guardTxn(lease, { compare, success })
    const [kv] = responses[1]?.response_range?.kvs ?? []
    answers.push({
      succeeded,
      keys: Object.keys(responses[1] ?? {}),
      kv: kv && { key: kv.key, value: kv.value },
    })
    await assert.rejects(store.guardTxn(lease, { success: [{ request_put: { key: 'no base64!' } }] }), {
      code: 'BACKEND',
    })
    await lease.release()
  }
  assert.deepEqual(answers[0], { succeeded: true, keys: ['response_range'], kv: { key, value } })
  assert.deepEqual(answers[1], answers[0])
})

for (const given of [null, 'grpc', {}, { Client: 1 }, { ...grpc, credentials: {} }]) {
  test(`grpc: ${JSON.stringify(given)?.slice(0, 40)} is refused before any I/O`, () => {
    const options = { endpoints: 'h', grpc: given } as unknown as EtcdOptions
    assert.throws(
      () => etcd(options),
      /grpc takes the package itself, 1\.9\.15 or newer: import \* as grpc from '@grpc\/grpc-js'/,
    )
  })
}

test('a server that does not speak HTTP/2 is reported as giving no answer', async (t) => {
  const silent = createServer((socket) => socket.resume().end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  t.after(() => silent.close())
  const { port } = silent.address() as { port: number }
  const { locks } = locksOf(t, `127.0.0.1:${port}`, { grpc })
  await assert.rejects(locks.mutex('x').tryAcquire(), {
    code: 'UNAVAILABLE',
    message: new RegExp(`127.0.0.1:${port}`),
  })
})

after(leakCheck)
