// How many requests a lock costs, counted where they leave, and how many events a hand-over makes, counted by the server.
// Second tier because crowds take long to count; conformance/etcd.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Grant } from '../../../src/core/driver.js'
import { base64 } from '../../../src/drivers/etcd/keys.js'
import { leakCheck } from '../../support/leaks.js'
import { startEtcd } from '../../support/servers/etcd.js'
import { until } from '../../support/until.js'
import { once, waiting } from '../support/asking.js'
import { asked } from '../support/http-requests.js'
import { claim } from '../support/session-store.js'
import { cabled, driverOf, locksOf, placesOf, protocols } from './support/scene.js'

const server = await startEtcd()
after(() => server.stop())

const beat = ['/v3/lease/keepalive', '/v3/kv/txn']
/** So long that neither a renewal nor the proof of a lease that is no longer new falls into what is counted. */
const ttl = 600_000

test('an uncontended lock costs two requests: one transaction and one removal', async (t) => {
  const { locks } = locksOf(t, server.url)
  await locks.mutex('free').run(none, { ttl })
  const paths = await asked(async () => {
    for (let i = 0; i < 20; i++) await locks.mutex('free').run(none, { ttl })
  })
  assert.deepEqual(paths, Array.from({ length: 20 }, () => ['/v3/kv/txn', '/v3/kv/deleterange']).flat())
})

test('so do a try, a reader and a permit', async (t) => {
  const { locks } = locksOf(t, server.url)
  await locks.mutex('warm').run(none, { ttl })
  for (const lock of [locks.readWrite('r').read, locks.semaphore('s', { permits: 3 })]) {
    const paths = await asked(async () => void (await (await lock.acquire({ ttl })).release()))
    assert.deepEqual(paths, ['/v3/kv/txn', '/v3/kv/deleterange'])
  }
  const paths = await asked(async () => void (await (await locks.mutex('t').tryAcquire({ ttl }))?.release()))
  assert.deepEqual(paths, ['/v3/kv/txn', '/v3/kv/deleterange'])
})

test('a try that finds it taken costs one request and leaves no queue entry', async (t) => {
  const [a, b] = [driverOf(t, server.url), driverOf(t, server.url)]
  const grant = await a.acquire(claim('taken'), once())
  await b.acquire(claim('other', { ttl }), once())
  const paths = await asked(async () =>
    assert.equal(await b.acquire(claim('taken', { ttl }), once()), undefined),
  )
  assert.deepEqual(paths, ['/v3/kv/txn'])
  assert.equal((await placesOf(server, 'taken')).length, 1)
  await grant?.release()
})

test('several locks are acquired in one transaction, up to 50; readers beside readers with two', async (t) => {
  const { locks } = locksOf(t, server.url)
  const names = Array.from({ length: 50 }, (_, i) => `n ${i}`)
  const run = (count: number) =>
    locks.all(names.slice(0, count).map((name) => locks.mutex(name))).run(none, { ttl })
  await locks.mutex('warm').run(none, { ttl })
  assert.deepEqual(await asked(() => run(3)), ['/v3/kv/txn', ...Array(3).fill('/v3/kv/deleterange')])
  const most = await asked(() => run(50))
  assert.equal(most.filter((path) => path === '/v3/kv/txn').length, 1)
  names.push('one more')
  const more = await asked(() => run(51))
  assert.equal(more.filter((path) => path === '/v3/kv/txn').length, 51)
  const other = locksOf(t, server.url)
  const reader = await other.locks.readWrite('n 1').read.acquire()
  const readers = locks.all(names.slice(0, 3).map((name) => locks.readWrite(name).read))
  const paths = await asked(async () => {
    const lease = await readers.tryAcquire({ ttl })
    assert.equal(lease?.leases.length, 3)
    await lease?.release()
  })
  assert.deepEqual(paths, [...Array(2).fill('/v3/kv/txn'), ...Array(3).fill('/v3/kv/deleterange')])
  await reader.release()
})

const none = () => undefined

test('many locks of one process are renewed with one keepalive and one read', async (t) => {
  const driver = driverOf(t, server.url)
  const grants: Grant[] = []
  for (let i = 0; i < 60; i++) {
    const grant = await driver.acquire(claim(`many ${i}`, { ttl }), once())
    assert.ok(grant)
    grants.push(grant)
  }
  const paths = await asked(() =>
    Promise.all(grants.map((grant) => grant.renew(ttl, new AbortController().signal))),
  )
  assert.deepEqual(paths, beat)
  await Promise.all(grants.map((grant) => grant.release()))
})

test('a hand-over at 200 waiters fires one watch and costs two requests', async (t) => {
  const name = 'crowd'
  const drivers = Array.from({ length: 201 }, () => driverOf(t, server.url))
  const first = await drivers[0]?.acquire(claim(name, { ttl }), waiting())
  assert.ok(first)
  const served: number[] = []
  const waits = drivers.slice(1).map((driver, i) =>
    driver.acquire(claim(name, { ttl }), waiting()).then((grant) => {
      served.push(i)
      return grant
    }),
  )
  await until(async () => (await placesOf(server, name)).length === 201, { within: 240_000, every: 100 })
  await until(async () => (await metric('etcd_debugging_mvcc_watcher_total')) >= 200, {
    within: 60_000,
    every: 100,
  })
  const before = await metric('etcd_debugging_mvcc_events_total')
  const paths = await asked(async () => {
    await first.release()
    await until(() => served.length > 0)
  })
  assert.deepEqual(paths, ['/v3/kv/deleterange', '/v3/kv/txn'])
  assert.equal((await metric('etcd_debugging_mvcc_events_total')) - before, 1)
  // All the others, one after the other: the same for each.
  const rest = await asked(async () => {
    for (let done = 0; done < 199; done++) {
      const next = await Promise.race(waits.filter((_, i) => i === served[done]))
      await next?.release()
      await until(() => served.length > done + 1, { every: 1 })
    }
  })
  assert.equal(rest.filter((path) => path !== '/v3/watch').length, 2 * 199)
  assert.equal(served.length, 200)
  await (await waits[served[199] ?? 0])?.release()
})

test('a pass inside the process costs one request, also while another process waits', async (t) => {
  const [driver, other] = [driverOf(t, server.url), driverOf(t, server.url)]
  const grant = await driver.acquire(claim('passed', { ttl }), once())
  const next = other.acquire(claim('passed', { ttl }), waiting())
  await until(async () => (await placesOf(server, 'passed')).length === 2)
  assert.ok(grant)
  let newest = grant.token
  for (let i = 0; i < 10; i++) {
    const paths = await asked(async () => {
      const token = await grant.nextToken?.()
      assert.ok(token !== undefined && token > newest, `${token} came after ${newest}`)
      newest = token
    })
    // The waiter may set its watch only now.
    assert.deepEqual(
      paths.filter((path) => !/watch|range/.test(path)),
      ['/v3/kv/txn'],
    )
    assert.equal((await other.inspect('passed')).holders[0]?.token, newest)
  }
  await grant.release()
  const after = await next
  assert.ok(after && after.token > newest, `${after?.token} came after ${newest}`)
  assert.equal((await driver.inspect('passed')).holders[0]?.token, after.token)
  await after.release()
})

test('a thousand leases of one process are looked for with three requests', async (t) => {
  const driver = driverOf(t, server.url)
  const grants: Grant[] = []
  for (let i = 0; i < 1_000; i++) {
    const grant = await driver.acquire(claim(`thousand ${i}`, { ttl }), once())
    assert.ok(grant)
    grants.push(grant)
  }
  const renewed = () => Promise.all(grants.map((grant) => grant.renew(ttl, new AbortController().signal)))
  const paths = await asked(renewed)
  assert.deepEqual(paths, ['/v3/lease/timetolive', ...beat])
  // An entry that is gone is still noticed.
  const other = driverOf(t, server.url)
  await other.forceRelease?.('thousand 7')
  await asked(() => new Promise((resolve) => setTimeout(resolve, 10)))
  const now = await asked(async () => {
    const brief = driverOf(t, server.url)
    await brief.list?.('thousand 1')
  })
  // 111 names, one process, one lease.
  assert.deepEqual(now, ['/v3/kv/range', '/v3/lease/timetolive'])
  await Promise.all(grants.map((grant) => grant.release()))
})

test('a waiter watches from now on even if the store has changed since the queue was read', async (t) => {
  const a = driverOf(t, server.url)
  const { driver: b, cable } = await cabled(t, server)
  const { locks } = locksOf(t, server.url)
  await (await b.acquire(claim('warm', { ttl }), once()))?.release()
  const held = await a.acquire(claim('moved on', { ttl }), waiting())
  cable.down.hold()
  const next = b.acquire(claim('moved on', { ttl }), waiting())
  await cable.down.holding()
  // Before it learns its place others write, and the store forgets its past: a watch on that would end.
  for (let n = 0; n < 3; n++) await locks.mutex(`noise ${n}`).run(none, { ttl })
  const { header } = await server.ask('/v3/kv/range', { key: base64('x') })
  await server.ask('/v3/kv/compaction', {
    revision: (header as { revision: string }).revision,
    physical: true,
  })
  // etcd serves a watch on past revisions only every 100 ms. Who watches from now on reads the entry once: it may be gone already.
  const paths = await asked(async (paths) => {
    cable.down.pass()
    const reads = () => paths.includes('/v3/kv/range')
    await until(reads, { what: 'the waiter to read the entry that it watches' })
    await pastWatchesEnd()
    await held?.release()
    await next
  })
  assert.deepEqual(paths, ['/v3/watch', '/v3/kv/range', '/v3/kv/deleterange', '/v3/kv/txn'])
  await (await next)?.release()
})

/** Resolves once etcd has ended the watches that begin in what it has forgotten: it looks for all of them at a time. */
async function pastWatchesEnd(): Promise<void> {
  const body = JSON.stringify({ create_request: { key: base64('x'), start_revision: '1' } })
  const { body: replies } = await fetch(`${server.url}/v3/watch`, { method: 'POST', body })
  let text = ''
  for await (const piece of replies?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece
    if (text.includes('compact_revision')) return
  }
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { headers: { connection: 'close' } })).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
}

for (const [name, more] of protocols)
  test(`${name}: a request that closing ends is not sent again, and no connection stays open`, async (t) => {
    const { driver, cable } = await cabled(t, server, more)
    await driver.inspect('closing')
    cable.down.hold()
    const asked = driver.inspect('closing')
    const refused = assert.rejects(asked, { name: 'BackendError' })
    await cable.down.holding()
    const { accepted } = cable
    await driver.close()
    await refused
    cable.down.pass()
    await until(() => cable.links.length === 0)
    assert.equal(cable.accepted, accepted)
  })

after(leakCheck)
