// Over gRPC: messages that are lost, late or duplicated; watches that break. One connection carries all calls, another all watches.
// Second tier because gRPC is a second client: etcd.test.ts shows the same over HTTP.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import * as grpc from '@grpc/grpc-js'
import type { Locks } from 'holdfast'
import type { Clock } from '../../src/core/clock.js'
import {
  cabled as anyCabled,
  driverOf,
  locksOf,
  type More,
  placesOf,
  put,
} from '../drivers/etcd/support/scene.js'
import { never, once, waiting } from '../drivers/support/asking.js'
import { survivesClockJumps } from '../drivers/support/clock-jumps.js'
import { claim } from '../drivers/support/session-store.js'
import { fakeClock } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcd } from '../support/servers/etcd.js'
import { until } from '../support/until.js'

const server = await startEtcd()
after(() => server.stop())

const cabled = (t: TestContext, more: More = {}, clock?: Clock, others?: readonly string[]) =>
  anyCabled(t, server, { grpc, ...more }, clock, others)

/** How many watches the server serves. */
async function watchers(): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { headers: { connection: 'close' } })).text()
  return Number(/^etcd_debugging_mvcc_watcher_total (\S+)$/m.exec(text)?.[1])
}

/** Bytes that have the key of this claim. */
const keyOf = ({ name, attempt }: { readonly name: string; readonly attempt: string }) => {
  const key = `holdfast/${name}/${attempt}`
  return (bytes: Buffer) => bytes.includes(key)
}

test('a claim whose reply was lost is sent again and finds its queue entry: one entry, one token', async (t) => {
  const { driver, cable } = await cabled(t)
  await (await driver.acquire(claim('warm'), once()))?.release()
  cable.down.hold()
  const asking = driver.acquire(claim('lost reply'), waiting())
  const [place] = await until(async () => {
    const places = await placesOf(server, 'lost reply')
    return places.length > 0 && places
  })
  cable.reset()
  cable.down.pass()
  const grant = await asking
  const places = await placesOf(server, 'lost reply')
  assert.deepEqual(
    places.map(({ create_revision }) => create_revision),
    [place?.create_revision],
  )
  assert.equal((await driver.inspect('lost reply')).holders[0]?.token, grant?.token)
  assert.equal(await grant?.release(), 'released')
})

test('a pass whose reply was lost gives nobody a token, and the grant is released', async (t) => {
  const { driver, cable } = await cabled(t)
  const other = driverOf(t, server.url)
  const grant = await driver.acquire(claim('lost pass'), once())
  assert.ok(grant)
  const next = other.acquire(claim('lost pass'), waiting())
  await until(async () => (await placesOf(server, 'lost pass')).length === 2)
  cable.down.hold()
  const minted = grant.nextToken?.().catch(() => undefined)
  const passed = await until(async () => {
    const token = (await other.inspect('lost pass')).holders[0]?.token ?? 0
    return token > grant.token && token
  })
  cable.reset()
  cable.down.pass()
  assert.equal(await minted, undefined)
  assert.match(await grant.release(), /released/)
  const granted = await next
  assert.ok((granted?.token ?? 0) > passed)
  assert.equal(await granted?.release(), 'released')
})

test('a claim that was given up in flight takes no queue entry when it arrives after all', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, { requestTimeout: 200 }, clock)
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late')
  // The request hangs on one connection, which is then silent; what is sent later goes over another and arrives before it.
  const sent = keyOf(one)
  let tries = 0
  cable.up.hold((bytes) => sent(bytes) && ++tries === 1)
  const wait = waiting()
  const asking = driver.acquire(one, wait).catch((error: unknown) => error)
  const [held] = await cable.up.holding()
  assert.ok(held?.link.open)
  wait.end()
  await clock.advance(200)
  await asking
  assert.ok(wait.told.length > 0)
  cable.up.letGo()
  cable.up.pass()
  // The very request, from a client that does not know it was given up.
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
  assert.deepEqual(await placesOf(server, 'late'), [])
})

test('a claim that another member answered takes no queue entry when it finally reaches the first', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, { requestTimeout: 300 }, clock, [server.url])
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late elsewhere')
  cable.up.hold(keyOf(one))
  const asking = driver.acquire(one, waiting())
  await cable.up.holding()
  await clock.advance(300)
  const grant = await asking
  assert.ok(cable.up.held.length > 0, 'the first try is still on its way')
  assert.equal(await grant?.release(), 'released')
  cable.up.pass()
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
  assert.deepEqual(await placesOf(server, 'late elsewhere'), [])
})

test('a try that got no answer, and then found no other member, takes nothing when it arrives after all', async (t) => {
  const clock = fakeClock()
  // Nobody listens there.
  const { driver, cable } = await cabled(t, { requestTimeout: 300 }, clock, ['127.0.0.1:1'])
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late, then refused')
  const sent = keyOf(one)
  let tries = 0
  cable.up.hold((bytes) => sent(bytes) && ++tries === 1)
  const refused = assert.rejects(driver.acquire(one, once()), { code: 'BACKEND', message: /ECONNREFUSED/ })
  await cable.up.holding()
  await clock.advance(300)
  await refused
  cable.up.pass()
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
})

test('a connection that breaks twice during a claim is a transient failure: the claim is sent again', async (t) => {
  const { driver, cable } = await cabled(t)
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('two broken')
  const broken: number[] = []
  cable.up.hold(keyOf(one))
  const asking = driver.acquire(one, waiting())
  for (let n = 1; n <= 2; n++) {
    const held = await until(() => cable.up.held.find(({ link }) => !broken.includes(link.id)))
    broken.push(held.link.id)
    held.link.reset()
  }
  cable.up.pass()
  assert.equal(await (await asking)?.release(), 'released')
  // It may have been carried out on either of them.
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
})

test('a release whose reply was lost is answered when it is repeated, and affects nobody', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, { requestTimeout: 200 }, clock)
  const other = driverOf(t, server.url)
  const grant = await driver.acquire(claim('lost release'), once())
  cable.down.drop()
  const refused = assert.rejects(grant?.release() ?? Promise.resolve(), { code: 'BACKEND' })
  await until(async () => (await placesOf(server, 'lost release')).length === 0)
  await clock.advance(200)
  await refused
  const second = await other.acquire(claim('lost release'), once())
  assert.ok(second)
  cable.down.pass()
  assert.equal(await grant?.release(), 'already-released')
  assert.equal((await placesOf(server, 'lost release')).length, 1)
  assert.equal(await second.release(), 'released')
})

test('a renewal over a connection that has fallen silent is answered over a new one', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, { requestTimeout: 300 }, clock)
  const grant = await driver.acquire(claim('silent'), once())
  // What is held on the old link stays there; a new one is not held.
  const old = cable.links.map(({ id }) => id)
  cable.down.hold()
  const renewing = grant?.renew(60_000, never).then(
    () => 'renewed',
    (error: { code?: unknown }) => error.code,
  )
  await cable.down.holding()
  await clock.advance(300)
  assert.equal(await renewing, 'BACKEND')
  cable.down.pass()
  assert.ok(((await grant?.renew(60_000, never)) ?? 0) > 0)
  assert.ok(
    cable.links.some(({ id }) => !old.includes(id)),
    'over a new connection',
  )
  assert.equal(await grant?.release(), 'released')
})

test('a watch that breaks is recreated, and one that hangs is replaced at the next heartbeat', async (t) => {
  for (const how of ['reset', 'silence'] as const) {
    const name = `watch ${how}`
    const holderDriver = driverOf(t, server.url)
    const { driver, cable } = await cabled(t)
    const one = claim(name, { ttl: 10_000 })
    const holder = await holderDriver.acquire(one, once())
    const waits = driver.acquire(claim(name, { ttl: 1_500 }), waiting())
    await until(async () => (await placesOf(server, name)).length === 2)
    await until(async () => (await watchers()) > 0)
    if (how === 'reset') cable.reset()
    // An event that deletes this key: its type, and then the key's fields.
    else {
      const deletes = Buffer.from([0x08, 0x01, 0x12])
      const key = keyOf(one)
      cable.down.hold((bytes) => bytes.includes(deletes) && key(bytes))
    }
    await holder?.release()
    if (how === 'silence') await cable.down.holding()
    const grant = await waits
    cable.down.pass()
    assert.equal(await grant?.release(), 'released')
  }
})

test('a queue whose history was compacted during a watch is read again', async (t) => {
  const name = 'compacted'
  const holderDriver = driverOf(t, server.url)
  const { driver, cable } = await cabled(t)
  await (await driver.acquire(claim('warm', { ttl: 30_000 }), once()))?.release()
  const one = claim(name, { ttl: 10_000 })
  const holder = await holderDriver.acquire(one, once())
  // The watch is on its way while the holder leaves and its leaving is compacted. Readers watch from the revision they have read.
  cable.up.hold(keyOf(one))
  const waits = driver.acquire(claim(name, { ttl: 30_000 }), waiting())
  await cable.up.holding()
  await holder?.release()
  for (let i = 0; i < 3; i++) await put(server, 'other', String(i))
  const { header } = (await server.ask('/v3/kv/range', { key: 'AA==' })) as { header: { revision: string } }
  await server.ask('/v3/kv/compaction', { revision: header.revision, physical: true })
  cable.up.pass()
  const grant = await waits
  assert.equal(await grant?.release(), 'released')
})

test('a cell that is watched from a revision that was compacted away is read anew', async (t) => {
  const { driver, cable } = await cabled(t)
  const { cells } = driver
  assert.ok(cells)
  const cell = await cells.write('c', { ifVersion: 0, value: '1', ttl: 60_000, id: 'a'.repeat(32) }, never)
  // The range that the watch begins with is answered; what follows on the other connection is held.
  let links = cable.links.length
  cable.up.hold((bytes) => bytes.includes('PRI * HTTP/2.0') && cable.links.length > links)
  const changed = cells.changed('c', cell?.version ?? 0, never)
  await cable.up.holding()
  links = 0
  await driverOf(t, server.url).cells?.write(
    'c',
    { ifVersion: cell?.version ?? 0, value: '2', ttl: 60_000, id: 'b'.repeat(32) },
    never,
  )
  await put(server, 'other', 'later')
  const { header } = (await server.ask('/v3/kv/range', { key: 'AA==' })) as { header: { revision: string } }
  await server.ask('/v3/kv/compaction', { revision: header.revision, physical: true })
  cable.up.pass()
  await changed
  assert.equal((await cells.read('c', never))?.value, '2')
})

test('a holder that is cut off no longer blocks others when its lease ends, and reports its loss before', async (t) => {
  const { driver, cable } = await cabled(t)
  const other = driverOf(t, server.url)
  const grant = await driver.acquire(claim('cut off', { ttl: 2_000 }), once())
  assert.ok(grant)
  const waits = other.acquire(claim('cut off'), waiting())
  cable.blackHole()
  const next = await waits
  assert.ok(performance.now() > grant.validUntil, 'the next holds before the first knows it does not')
  assert.ok(next && next.token > grant.token)
  cable.heal()
  // Until a connection is there again it cannot tell.
  await until(async () => (await grant.renew(2_000, never).catch(() => 0)) === undefined)
  assert.equal(await next.release(), 'released')
})

test('a restarted server is used again by holders and waiters', async (t) => {
  await using own = await startEtcd()
  const [a, b] = [1, 2].map(() => driverOf(t, own.url, { grpc }))
  const held = await a?.acquire(claim('restart', { ttl: 60_000 }), once())
  const waits = b?.acquire(claim('restart', { ttl: 60_000 }), waiting())
  await until(async () => (await placesOf(own, 'restart')).length === 2)
  await own.restart()
  await until(async () => ((await held?.renew(60_000, never).catch(() => 0)) ?? 0) > 0, { within: 30_000 })
  assert.equal(await held?.release(), 'released')
  assert.equal(await (await waits)?.release(), 'released')
})

test('a client whose wall clock jumps holds on, and is served when it is its turn', async (t) => {
  const module = new URL('../drivers/etcd/support/clock-child.js', import.meta.url).href
  await survivesClockJumps(t, locksOf(t, server.url).locks as Locks, { module, args: [[server.url]] })
})

test('closing releases everything at once: queue entries, waiters and leases', async (t) => {
  const driver = driverOf(t, server.url, { grpc })
  await driver.acquire(claim('closing'), once())
  const wait = waiting()
  const waits = driver.acquire(claim('closing'), wait)
  await until(async () => (await placesOf(server, 'closing')).length === 2)
  wait.end()
  await driver.close()
  assert.deepEqual(await placesOf(server, 'closing'), [])
  assert.equal(await waits, undefined)
})

after(leakCheck)
