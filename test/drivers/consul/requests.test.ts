// The number of requests that a lock costs, counted in the client.
// Second tier because crowds take long to count; conformance/consul.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Grant, Wait } from '../../../src/core/driver.js'
import { permits } from '../../../src/core/mode.js'
import { leakCheck } from '../../support/leaks.js'
import { startConsul } from '../../support/servers/consul.js'
import { until } from '../../support/until.js'
import { never, once, waiting } from '../support/asking.js'
import { asked } from '../support/http-requests.js'
import { claim } from '../support/session-store.js'
import { cabled, driverOf, locksOf, placesOf } from './support/scene.js'

const server = await startConsul()
after(() => server.stop())

const txn = '/v1/txn'
/** So long that neither a renewal nor the proof of a session that is no longer new falls into what is counted. */
const ttl = 600_000
const none = () => undefined
const query = (path: string) => path.startsWith('/v1/kv/')

test('an uncontended mutex costs two requests, a reader and a permit three', async (t) => {
  const locks = locksOf(t, server.url).locks
  await locks.mutex('free').run(none, { ttl })
  const paths = await asked(async () => {
    for (let i = 0; i < 20; i++) await locks.mutex('free').run(none, { ttl })
  })
  assert.deepEqual(paths, Array<string>(40).fill(txn))
  for (const lock of [locks.readWrite('r').read, locks.semaphore('s', { permits: 3 })]) {
    assert.deepEqual(await asked(async () => void (await (await lock.acquire({ ttl })).release())), [
      txn,
      txn,
      txn,
    ])
  }
  assert.deepEqual(
    await asked(async () => void (await (await locks.mutex('t').tryAcquire({ ttl }))?.release())),
    [txn, txn],
  )
})

test('a try that finds it taken costs two requests and creates no queue entry', async (t) => {
  const [a, b] = [driverOf(t, server.url), driverOf(t, server.url)]
  const grant = await a.acquire(claim('taken'), once())
  await (await b.acquire(claim('other', { ttl }), once()))?.release()
  const paths = await asked(async () =>
    assert.equal(await b.acquire(claim('taken', { ttl }), once()), undefined),
  )
  assert.deepEqual(paths, [txn, `${txn}?consistent`])
  assert.equal((await placesOf(server, 'taken')).length, 1)
  await grant?.release()
})

test('many locks of one process are renewed with one renewal and one read', async (t) => {
  const driver = driverOf(t, server.url)
  const grants: (Grant | undefined)[] = []
  for (let i = 0; i < 40; i++) grants.push(await driver.acquire(claim(`many ${i}`, { ttl }), once()))
  const paths = await asked(() =>
    Promise.all(grants.map((grant) => grant?.renew(ttl, new AbortController().signal))),
  )
  assert.deepEqual(
    paths.map((path) => path.replace(/renew\/.*/, 'renew')),
    ['/v1/session/renew', `${txn}?consistent`],
  )
  assert.ok((await grants[0]?.renew(ttl, never)) !== undefined)
  await Promise.all(grants.map((grant) => grant?.release()))
})

test('a waiter for permits sends nothing until one before it leaves, whoever joins or leaves behind it', async (t) => {
  const drivers = [0, 1, 2, 3].map(() => driverOf(t, server.url))
  const permit = (i: number, wait: Wait) =>
    drivers[i]?.acquire(claim('permits', { ttl, mode: permits(1, 1) }), wait)
  const inLine = (n: number) => until(async () => (await placesOf(server, 'permits')).length === n)
  const held = await permit(0, once())
  const gone = waiting()
  let next: ReturnType<typeof permit>
  let third: ReturnType<typeof permit>
  const paths = await asked(async () => {
    next = permit(1, waiting())
    await inLine(2)
    const left = permit(2, gone)
    await inLine(3)
    gone.end()
    assert.equal(await left, undefined)
    third = permit(3, waiting())
    await inLine(3)
    // As long as an answer takes that comes at once: asked by one, they are answered in turn.
    for (let i = 0; i < 50; i++) await server.ask('GET', '/v1/status/leader')
  })
  // Each asks for news once, and once more for each of the three that came or left after it; one may have found another's place gone.
  assert.ok(paths.filter(query).length <= 8, paths.join(' '))
  await held?.release()
  for (const wait of [next, third]) assert.equal(await (await wait)?.release(), 'released')
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
      paths.filter((path) => !query(path)),
      [txn],
    )
    assert.equal((await other.inspect('passed')).holders[0]?.token, newest)
  }
  await grant.release()
  const after = await next
  assert.ok(after && after.token > newest, `${after?.token} came after ${newest}`)
  assert.equal((await driver.inspect('passed')).holders[0]?.token, after.token)
  await after.release()
})

for (const crowd of [40, 200]) {
  test(`a hand-over at ${crowd} waiters wakes one of them and costs two requests`, async (t) => {
    const name = `crowd ${crowd}`
    const drivers = Array.from({ length: crowd + 1 }, () => driverOf(t, server.url))
    const first = await drivers[0]?.acquire(claim(name, { ttl }), waiting())
    const served: number[] = []
    const waits: Promise<{ release(): Promise<unknown> } | undefined>[] = []
    await asked(async (paths) => {
      for (const [i, driver] of drivers.slice(1).entries()) {
        const wait = driver.acquire(claim(name, { ttl }), waiting()).then((grant) => {
          served.push(i)
          return grant
        })
        waits.push(wait)
        // In the queue, and asking for news of the one before.
        await until(() => paths.filter(query).length === i + 1, { every: 1 })
      }
    })
    for (const n of [0, 1, crowd - 1]) {
      while (served.length < n) {
        const before = served.length
        await (before === 0 ? first?.release() : (await waits[served[before - 1] ?? 0])?.release())
        await until(() => served.length > before, { every: 1 })
      }
      const before = served.length
      const paths = await asked(async () => {
        await (before === 0 ? first?.release() : (await waits[served[before - 1] ?? 0])?.release())
        await until(() => served.length > before, { every: 1 })
      })
      assert.deepEqual(paths, [txn, txn], 'others were woken, or it took more than a release and a take')
    }
    assert.deepEqual(
      served,
      Array.from({ length: crowd }, (_, i) => i),
    )
    await (await waits[crowd - 1])?.release()
  })
}

test('a request that closing ends is not sent again, and no connection stays open', async (t) => {
  const { driver, cable } = await cabled(t, server)
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
