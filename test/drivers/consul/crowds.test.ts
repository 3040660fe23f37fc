// Second tier because hundreds of waiters each read the queue as they enter.
// Many waiters of one process on one name: more than the 200 connections that an agent accepts from one address.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { startConsul } from '../../support/servers/consul.js'
import { until } from '../../support/until.js'
import { once, waiting } from '../support/asking.js'
import { asked } from '../support/http-requests.js'
import { claim } from '../support/session-store.js'
import { driverOf, placesOf } from './support/scene.js'

const server = await startConsul()
after(() => server.stop())

/** So long that neither a renewal nor the proof of a session that is no longer new falls into what is counted. */
const ttl = 600_000
const many = 250

test(`${many} waiters of one process ask for few changes, and a hand-over costs two requests and a query`, async (t) => {
  const name = 'crowd'
  const [holder, driver] = [driverOf(t, server.url), driverOf(t, server.url)]
  const first = await holder.acquire(claim(name, { ttl }), once())
  await (await driver.acquire(claim('warm', { ttl }), once()))?.release()
  const isQuery = (path: string) => path.startsWith('/v1/kv/')
  let all: {
    readonly wait: ReturnType<typeof waiting>
    readonly grant: ReturnType<typeof driver.acquire>
  }[] = []
  const entering = await asked(async () => {
    all = Array.from({ length: many }, () => {
      const wait = waiting()
      return { wait, grant: driver.acquire(claim(name, { ttl }), wait) }
    })
    await until(async () => (await placesOf(server, name)).length === many + 1, { within: 60_000 })
  })
  // Three, and those whose answers about their entries came out of turn: 32 are asked for at once.
  const queries = entering.filter(isQuery).length
  assert.ok(queries <= 3 + 32, `${queries} queries`)
  // The first 32 also try to take the lock with their entry.
  assert.ok(entering.length - queries <= many + 32, `${entering.length - queries} transactions`)
  const ends: { release(): Promise<unknown> }[] = []
  let served = 0
  let next = () => {}
  const enough = new Promise<void>((resolve) => {
    next = resolve
  })
  const done = all.map(async ({ grant }) => {
    const mine = await grant
    if (mine === undefined) return
    if (++served < 60) return void (await mine.release())
    ends.push(mine)
    next()
  })
  const passing = await asked(async () => {
    await first?.release()
    await enough
  })
  assert.equal(served, 60)
  const passes = passing.filter((path) => !isQuery(path)).length
  assert.ok(passes <= 2 * 60, `${passes} transactions for 60 hand-overs`)
  assert.ok(passing.length - passes <= 60 + 3, `${passing.length - passes} queries for 60 hand-overs`)
  for (const { wait } of all) wait.end()
  await Promise.all(ends.map((mine) => mine.release()))
  await Promise.all(done)
  await Promise.all(ends.map((mine) => mine.release()))
  await until(async () => (await placesOf(server, name)).length === 0)
})

after(leakCheck)
