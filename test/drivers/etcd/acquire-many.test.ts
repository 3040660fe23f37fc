// Several claims in one transaction: what is lost, late or refused leaves nothing, and no part of it.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Claim, Driver } from '../../../src/core/driver.js'
import { shared } from '../../../src/core/mode.js'
import { fakeClock } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'
import { startEtcd } from '../../support/servers/etcd.js'
import { until } from '../../support/until.js'
import { never, once, waiting } from '../support/asking.js'
import { claim } from '../support/session-store.js'
import { cabled, driverOf, placeKey, placesOf } from './support/scene.js'

const server = await startEtcd()
after(() => server.stop())

const together = async (driver: Driver, claims: readonly Claim[]) => driver.acquireMany?.(claims, once())
const placesIn = async (claims: readonly Claim[]) =>
  (await Promise.all(claims.map(({ name }) => placesOf(server, name)))).flat()
const revision = async () => {
  const { header } = await server.ask('/v3/kv/range', { key: 'AA==' })
  return (header as { readonly revision: string }).revision
}
const holds = (one: Claim) => (bytes: Buffer) => bytes.includes(placeKey(one.name, one.attempt))

test('whose reply was lost are requested again and found: one entry and one token each', async (t) => {
  // Only the broken connection makes it ask again.
  const { driver, cable } = await cabled(t, server, { requestTimeout: 60_000 })
  await (await driver.acquire(claim('warm'), once()))?.release()
  const claims = [claim('lost 1'), claim('lost 2')]
  cable.down.hold()
  const asking = together(driver, claims)
  await cable.down.holding()
  const places = await placesIn(claims)
  cable.reset()
  cable.down.pass()
  const grants = await asking
  assert.deepEqual(
    grants?.map(({ token }) => String(token)),
    places.map(({ create_revision }) => create_revision),
  )
  assert.equal((await placesIn(claims)).length, 2)
  for (const grant of grants ?? []) assert.equal(await grant.release(), 'released')
  // The very request, from a client that does not know they were released.
  assert.equal(await together(driverOf(t, server.url), claims), undefined)
  assert.deepEqual(await placesIn(claims), [])
})

test('that were given up while on their way take nothing when they arrive after all', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  await (await driver.acquire(claim('warm'), once()))?.release()
  const claims = [claim('late 1'), claim('late 2')]
  // The request hangs on one connection; what is sent later goes over another and arrives before it.
  const sent = holds(claims[1] as Claim)
  let tries = 0
  cable.up.hold((bytes) => sent(bytes) && ++tries === 1)
  const refused = assert.rejects(together(driver, claims), { code: 'BACKEND' })
  await cable.up.holding()
  await clock.advance(200)
  await refused
  cable.up.letGo()
  cable.up.pass()
  assert.equal(await together(driverOf(t, server.url), claims), undefined)
  assert.deepEqual(await placesIn(claims), [])
})

test('a try that another member refused takes nothing when it reaches the first after all, be it for one or for several', async (t) => {
  for (const count of [1, 2]) {
    const clock = fakeClock()
    const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, [server.url])
    await (await driver.acquire(claim('warm'), once()))?.release()
    const claims = Array.from({ length: count }, (_, i) => claim(`elsewhere ${count} ${i}`))
    const [first] = claims as [Claim]
    const ask = async (by: Driver) => (count === 1 ? by.acquire(first, once()) : together(by, claims))
    const other = driverOf(t, server.url)
    const holder = await other.acquire(claim(first.name), once())
    cable.up.hold(holds(first))
    const asking = ask(driver)
    await cable.up.holding()
    await clock.advance(300)
    assert.equal(await asking, undefined)
    assert.ok(cable.up.held.length > 0, 'the first try is still on its way')
    await holder?.release()
    assert.equal(await ask(other), undefined)
    assert.deepEqual(await placesIn(claims), [])
  }
})

test('a try that misses one writes nothing at all', async (t) => {
  const [a, b] = [driverOf(t, server.url), driverOf(t, server.url)]
  await (await b.acquire(claim('warm'), once()))?.release()
  const held = await a.acquire(claim('taken'), once())
  const before = await revision()
  assert.equal(await together(b, [claim('free'), claim('taken'), claim('free too')]), undefined)
  assert.equal(await revision(), before)
  await held?.release()
})

test('readers among them stand beside readers, and behind no waiting writer', async (t) => {
  const [a, b] = [driverOf(t, server.url), driverOf(t, server.url)]
  const reading = (name: string) => claim(name, { mode: shared })
  const held = await a.acquire(reading('read'), once())
  const grants = await together(b, [reading('read'), claim('written')])
  assert.equal(grants?.length, 2)
  for (const grant of grants ?? []) await grant.release()
  const writer = a.acquire(claim('read'), waiting())
  await until(async () => (await placesOf(server, 'read')).length === 2)
  assert.equal(await together(b, [reading('read'), claim('written')]), undefined)
  await held?.release()
  assert.equal(await (await writer)?.release(), 'released')
})

test('a lease that has ended meanwhile is recreated for all of them', async (t) => {
  const driver = driverOf(t, server.url)
  const old = await driver.acquire(claim('before'), once())
  await server.ask('/v3/lease/revoke', { ID: (await placesOf(server, 'before'))[0]?.lease })
  const claims = [claim('after 1'), claim('after 2')]
  const grants = await together(driver, claims)
  assert.equal(grants?.length, 2)
  assert.equal(await old?.renew(30_000, never), undefined, 'what it kept is gone')
  for (const grant of grants ?? []) assert.equal(await grant.release(), 'released')
})

test('with a lease for each lock they share one, which goes with the last of them', async (t) => {
  const driver = driverOf(t, server.url, { lease: 'lock' })
  const claims = [claim('own 1'), claim('own 2')]
  const grants = await together(driver, claims)
  const leases = new Set((await placesIn(claims)).map(({ lease }) => lease))
  assert.equal(leases.size, 1)
  const left = async () =>
    Number((await server.ask('/v3/lease/timetolive', { ID: [...leases][0] }))['TTL'] ?? 0)
  await grants?.[0]?.release()
  assert.ok((await left()) > 0)
  assert.equal((await placesIn(claims)).length, 1)
  await grants?.[1]?.release()
  await until(async () => (await left()) <= 0)
})

after(leakCheck)
