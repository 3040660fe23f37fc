// Second tier because hundreds wait in it, over both protocols.
// Many waiters of one process on one name: what they keep open, what they cost, and that they are served in order.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Driver, Grant } from '../../../src/core/driver.js'
import { leakCheck } from '../../support/leaks.js'
import { startEtcd } from '../../support/servers/etcd.js'
import { until } from '../../support/until.js'
import { once, type TestWait, waiting } from '../support/asking.js'
import { asked } from '../support/http-requests.js'
import { claim } from '../support/session-store.js'
import { cabled, driverOf, placeKey, placesOf, protocols } from './support/scene.js'

const server = await startEtcd()
after(() => server.stop())

/** So long that neither a renewal nor the proof of a lease that is no longer new falls into what is counted. */
const ttl = 600_000
const many = 300
/** Three, and those whose answers about their entries came out of turn: so many are asked for at once. */
const mostWatches = 3 + 32

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { headers: { connection: 'close' } })).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)
}
const watchers = () => metric('etcd_debugging_mvcc_watcher_total')

interface Waiting {
  readonly wait: TestWait
  readonly key: string
  readonly grant: Promise<Grant | undefined>
}

/** So many wait, here in the order of the store: those who come together are in any. */
async function crowd(
  driver: Driver,
  name: string,
  count: number,
  before: number,
  more: { readonly ttl?: number } = {},
): Promise<Waiting[]> {
  const all = Array.from({ length: count }, () => ask(driver, name, more))
  await until(async () => (await placesOf(server, name)).length === before + count, { within: 60_000 })
  const keys = (await placesOf(server, name)).map(({ key }) => key)
  return all.sort((one, other) => keys.indexOf(one.key) - keys.indexOf(other.key))
}

function ask(driver: Driver, name: string, more: { readonly ttl?: number } = {}): Waiting {
  const wait = waiting()
  const asked = claim(name, { ttl, ...more })
  return { wait, key: placeKey(name, asked.attempt), grant: driver.acquire(asked, wait) }
}

async function held(t: TestContext, name: string): Promise<Grant> {
  const grant = await driverOf(t, server.url).acquire(claim(name, { ttl }), once())
  assert.ok(grant)
  return grant
}

for (const [protocol, more] of protocols) {
  test(`${many} waiters of one process keep few watches, and are served in order (${protocol})`, async (t) => {
    const name = `crowd ${protocol}`
    const driver = driverOf(t, server.url, more)
    const first = await held(t, name)
    const all = await crowd(driver, name, many, 1)
    await until(async () => (await watchers()) >= 3)
    assert.ok((await watchers()) <= mostWatches, `${await watchers()} watches`)
    await first.release()
    // Each is granted only once the one before it has released.
    for (const { grant } of all.slice(0, 100)) await (await grant)?.release()
    // All give up, from the last to the first: none of them is left, nor anything else.
    for (const { wait } of all.toReversed()) wait.end()
    for (const { grant } of all.slice(101)) assert.equal(await grant, undefined)
    await (await all[100]?.grant)?.release()
    await until(async () => (await placesOf(server, name)).length === 0)
    await until(async () => (await watchers()) === 0)
  })
}

test('each of many enters with one request, and a hand-over costs two and a watch', async (t) => {
  const name = 'counted'
  const driver = driverOf(t, server.url)
  await (await driver.acquire(claim('warm', { ttl }), once()))?.release()
  const first = await held(t, name)
  let all: Waiting[] = []
  const entering = await asked(async () => {
    all = await crowd(driver, name, many, 1)
    await until(async () => (await watchers()) >= 3)
  })
  const count = (paths: readonly string[], path: string) => paths.filter((one) => one === path).length
  assert.equal(count(entering, '/v3/kv/txn'), many)
  // Those who watch read the entry before them once more, because others have entered meanwhile.
  assert.ok(entering.length <= many + 2 * mostWatches, `${entering.length} requests`)
  const passing = await asked(async () => {
    await first.release()
    for (const { grant } of all.slice(0, 50)) await (await grant)?.release()
    await all[50]?.grant
  })
  assert.equal(count(passing, '/v3/kv/deleterange'), 51)
  assert.equal(count(passing, '/v3/kv/txn'), 51)
  assert.ok(passing.length <= 51 * 4, `${passing.length} requests for 51 hand-overs`)
  const leaving = await asked(async () => {
    for (const { wait } of all) wait.end()
    await Promise.all(all.slice(51).map(({ grant }) => grant))
  })
  // Those that go do not make others watch that go, too.
  assert.equal(count(leaving, '/v3/watch'), 0)
  assert.equal(count(leaving, '/v3/kv/txn'), many - 51)
  await (await all[50]?.grant)?.release()
})

test('a silent store gets a bounded number of requests, and all of them when it replies', async (t) => {
  const name = 'silent'
  const driver = driverOf(t, server.url)
  await (await driver.acquire(claim('warm', { ttl }), once()))?.release()
  const first = await held(t, name)
  server.pause()
  t.after(() => server.resume())
  let all: Waiting[] = []
  const sent = await asked(async (paths) => {
    all = Array.from({ length: many }, () => ask(driver, name))
    await until(() => paths.length >= 32)
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  })
  assert.equal(sent.length, 32)
  server.resume()
  await until(async () => (await placesOf(server, name)).length === many + 1, { within: 60_000 })
  for (const { wait } of all) wait.end()
  await Promise.all(all.map(({ grant }) => grant))
  await until(async () => (await placesOf(server, name)).length === 1)
  await first.release()
})

test('waiters of two processes in turn are served in turn', async (t) => {
  const name = 'in turn'
  const [a, b] = [driverOf(t, server.url), driverOf(t, server.url)]
  const first = await held(t, name)
  const served: number[] = []
  const all: Waiting[] = []
  for (let i = 0; i < 20; i++) {
    const [one] = await crowd(i % 2 === 0 ? a : b, name, 1, i + 1)
    if (one) all.push(one)
  }
  await first.release()
  await Promise.all(
    all.map(async ({ grant }, i) => {
      const mine = await grant
      served.push(i)
      await mine?.release()
    }),
  )
  assert.deepEqual(
    served,
    all.map((_, i) => i),
  )
})

test('an operator removes the entries of watching waiters: the next one is still served', async (t) => {
  const name = 'removed'
  const driver = driverOf(t, server.url)
  const first = await held(t, name)
  const all = await crowd(driver, name, 8, 1)
  await until(async () => (await watchers()) >= 3)
  const places = await placesOf(server, name)
  for (const { key } of places.slice(1, 5)) await server.ask('/v3/kv/deleterange', { key })
  await first.release()
  // The four come again, at the end.
  for (const { grant } of all.slice(4)) await (await grant)?.release()
  await Promise.all(all.slice(0, 4).map(async ({ grant }) => (await grant)?.release()))
})

test('a process dies with many in the queue: they go together with its lease, and the one behind them is served', async (t) => {
  const name = 'died'
  const { driver, cable } = await cabled(t, server)
  const first = await held(t, name)
  const all = await crowd(driver, name, many, 1, { ttl: 10_000 })
  const [behind] = await crowd(driverOf(t, server.url), name, 1, many + 1)
  // To the store, a process that is cut off is dead.
  cable.blackHole()
  await first.release()
  const grant = await behind?.grant
  assert.ok(grant)
  assert.equal((await placesOf(server, name)).length, 1)
  await grant.release()
  for (const { wait } of all) wait.end()
  cable.heal()
  await Promise.allSettled(all.map(({ grant }) => grant))
})

after(leakCheck)
