// Several claims in one transaction: lost, late, refused and out-of-turn ones leave nothing behind, not even a part.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Claim, Driver } from '../../../src/core/driver.js'
import { shared } from '../../../src/core/mode.js'
import { encodePath, lockKeys } from '../../../src/drivers/consul/keys.js'
import { fakeClock } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'
import { startConsul } from '../../support/servers/consul.js'
import { until } from '../../support/until.js'
import { once } from '../support/asking.js'
import { asked } from '../support/http-requests.js'
import { claim } from '../support/session-store.js'
import { cabled, driverOf, lockOf, locksOf, placesOf } from './support/scene.js'

const server = await startConsul()
after(() => server.stop())

const txn = '/v1/txn'
const together = async (driver: Driver, claims: readonly Claim[]) => driver.acquireMany?.(claims, once())
const placesIn = async (claims: readonly Claim[]) =>
  (await Promise.all(claims.map(({ name }) => placesOf(server, name)))).flat()
const locksIn = async (claims: readonly Claim[]) =>
  (await Promise.all(claims.map(({ name }) => lockOf(server, name)))).filter((lock) => lock !== undefined)
const nothingOf = async (claims: readonly Claim[]) => {
  assert.deepEqual(await placesIn(claims), [])
  assert.deepEqual(await locksIn(claims), [])
}
/** A client that is queued and does not take the lock, until it leaves. */
async function standIn(name: string): Promise<{ leave(): Promise<void> }> {
  const { ID } = (await server.ask('PUT', '/v1/session/create', '{"TTL":"60s","Behavior":"delete"}')) as {
    ID: string
  }
  await server.ask(
    'PUT',
    `/v1/kv/${encodePath(lockKeys('holdfast/', name).entry('f'.repeat(32)))}?acquire=${ID}`,
  )
  return { leave: async () => void (await server.ask('PUT', `/v1/session/destroy/${ID}`)) }
}

test('several locks are acquired in one transaction, up to 12, and guarded each by its own', async (t) => {
  const { locks, store } = locksOf(t, server.url)
  const names = Array.from({ length: 12 }, (_, i) => `n ${i}`)
  const all = (count: number) => locks.all(names.slice(0, count).map((name) => locks.mutex(name)))
  // So long that no renewal falls into what is counted.
  const ttl = 600_000
  await locks.mutex('warm').run(() => undefined, { ttl })
  for (const [count, transactions] of [
    [3, 1 + 3],
    [12, 1 + 12],
  ] as const) {
    assert.deepEqual(
      await asked(() => all(count).run(() => undefined, { ttl })),
      Array(transactions).fill(txn),
    )
  }
  names.push('one more')
  assert.deepEqual(await asked(() => all(13).run(() => undefined, { ttl })), Array(13 + 13).fill(txn))
  const both = await all(2).acquire()
  const [one, two] = both.leases
  assert.ok(one && two && one.token === two.token)
  await one.release()
  assert.throws(() => store.guard(one), { code: 'STALE_TOKEN', lock: 'n 0' })
  assert.equal((await store.guardTxn(two, [])).succeeded, true)
  await both.release()
})

test('whose reply was lost are requested again and found: one entry and one token each', async (t) => {
  // Only the broken connection makes it ask again.
  const { driver, cable } = await cabled(t, server, { requestTimeout: 60_000 })
  await (await driver.acquire(claim('warm'), once()))?.release()
  const claims = [claim('lost 1'), claim('lost 2'), claim('lost 3', { mode: shared })]
  cable.down.hold()
  const asking = together(driver, claims)
  await cable.down.holding()
  const [first] = await locksIn(claims)
  cable.reset()
  cable.down.pass()
  const grants = await asking
  assert.deepEqual(
    grants?.map(({ token }) => token),
    claims.map(() => first?.ModifyIndex),
  )
  assert.equal((await placesIn(claims)).length, 3)
  for (const grant of grants ?? []) assert.equal(await grant.release(), 'released')
  // The very request, from a client that does not know they were released.
  assert.equal(await together(driverOf(t, server.url), claims), undefined)
  await nothingOf(claims)
})

test('that were given up while on their way take nothing when they arrive after all', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  await (await driver.acquire(claim('warm'), once()))?.release()
  const claims = [claim('late 1'), claim('late 2')]
  // The request hangs on one connection; what is sent later goes over another and arrives before it.
  let tries = 0
  cable.up.hold((bytes) => bytes.includes('late 2/.line') && ++tries === 1)
  const refused = assert.rejects(together(driver, claims), { code: 'BACKEND' })
  await cable.up.holding()
  await clock.advance(200)
  await refused
  cable.up.letGo()
  cable.up.pass()
  assert.equal(await together(driverOf(t, server.url), claims), undefined)
  await nothingOf(claims)
})

test('a reply lost after all were taken leaves nothing behind, even if nobody asks again', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  await (await driver.acquire(claim('warm'), once()))?.release()
  const claims = [claim('unheard 1'), claim('unheard 2')]
  let answers = 0
  cable.down.hold((bytes) => bytes.includes('unheard 2/.line') && ++answers === 1)
  const refused = assert.rejects(together(driver, claims), { code: 'BACKEND' })
  await cable.down.holding()
  assert.equal((await locksIn(claims)).length, 2)
  await clock.advance(200)
  await refused
  cable.down.pass()
  await until(async () => (await locksIn(claims)).length === 0)
  await nothingOf(claims)
})

test('that are not first in one queue release all in one transaction, and overtake nobody', async (t) => {
  const driver = driverOf(t, server.url)
  // So long that no proof of the session falls into what is counted.
  const ttl = 600_000
  await (await driver.acquire(claim('warm', { ttl }), once()))?.release()
  const claims = ['free', 'lined', 'free too'].map((name) => claim(name, { ttl }))
  const first = await standIn('lined')
  const paths = await asked(async () => assert.equal(await together(driver, claims), undefined))
  assert.deepEqual(paths, [txn, txn])
  assert.deepEqual(await locksIn(claims), [])
  assert.equal((await placesIn(claims)).length, 1, 'only of who stood there before')
  await first.leave()
  const grants = await together(driver, claims)
  assert.equal(grants?.length, 3)
  for (const grant of grants ?? []) assert.equal(await grant.release(), 'released')
  await nothingOf(claims)
})

test('a try that misses one writes nothing at all', async (t) => {
  const [a, b] = [driverOf(t, server.url), driverOf(t, server.url)]
  await (await b.acquire(claim('warm'), once()))?.release()
  const held = await a.acquire(claim('taken'), once())
  const claims = [claim('untouched'), claim('taken')]
  const paths = await asked(async () => assert.equal(await together(b, claims), undefined))
  assert.deepEqual(paths, [txn, `${txn}?consistent`])
  assert.deepEqual(await placesOf(server, 'untouched'), [])
  await held?.release()
})

test('a lock left without an owner, as `consul lock` leaves it, is taken with the others', async (t) => {
  const driver = driverOf(t, server.url)
  const claims = [claim('left'), claim('beside it')]
  await server.ask('PUT', `/v1/kv/${encodePath(lockKeys('holdfast/', 'left').lock)}`, 'somebody')
  const grants = await together(driver, claims)
  assert.equal(grants?.length, 2)
  for (const grant of grants ?? []) assert.equal(await grant.release(), 'released')
  await nothingOf(claims)
})

after(leakCheck)
