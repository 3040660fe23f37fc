// Renewals leave together, and each lease is judged by itself.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Driver, Grant } from '../../../src/core/driver.js'
import { leakCheck } from '../../support/leaks.js'
import { type RedisServer, startMany } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { claim, waiting } from '../support/asking.js'
import { type Cabled, cabled, meet, type Scene, votesAt } from './support/scene.js'

const five = await startMany(5)
after(() => five.stop())
const here: Scene = {
  servers: five.servers,
  ports: five.servers.map(({ port }) => port),
  prefix: 'renewals:',
}
const ttl = 60_000
const many = 100

/** Scripts that this server has run so far. */
async function scriptsRun(server: RedisServer): Promise<number> {
  const stats = String(await server.cli('INFO', 'commandstats'))
  return [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0,
  )
}

/** Clients whose servers give no answer only because they are cut off: no time limit is near. */
async function clients(t: TestContext, n: number): Promise<readonly Cabled[]> {
  const made = await cabled(t, here, n, { commandTimeout: 5_000 })
  await meet(here, ...made.map(({ driver }) => driver))
  return made
}

async function acquired(driver: Driver, label: string): Promise<readonly Grant[]> {
  const names = Array.from({ length: many }, (_, i) => `${label} ${i}`)
  const grants: Grant[] = []
  for (const name of names) {
    const grant = await driver.acquire(claim(name, { ttl }), waiting())
    assert.ok(grant)
    grants.push(grant)
  }
  // Their last votes may still be under way.
  const last = names.at(-1) ?? ''
  await until(async () => {
    const votes = await Promise.all(here.servers.map((server) => votesAt(server, last, here.prefix)))
    return votes.every(({ length }) => length === 1)
  })
  return grants
}

const renewed = (grants: readonly Grant[]) =>
  Promise.allSettled(grants.map((grant) => grant.renew(ttl, new AbortController().signal)))

const end = (grants: readonly Grant[]) => Promise.all(grants.map((grant) => grant.release()))

test('a hundred renewals of one tick cost each server one command, or two for the first', async (t) => {
  const [{ driver }] = (await clients(t, 1)) as [Cabled]
  const grants = await acquired(driver, 'together')
  const before = await Promise.all(here.servers.map(scriptsRun))
  const deadlines = grants.map(({ validUntil }) => validUntil)
  const outcomes = await renewed(grants)
  for (const [i, outcome] of outcomes.entries()) {
    assert.ok(outcome.status === 'fulfilled' && (outcome.value ?? 0) > (deadlines[i] ?? 0))
    assert.equal(grants[i]?.validUntil, outcome.value)
  }
  for (const [i, server] of here.servers.entries()) {
    await until(async () => (await scriptsRun(server)) > (before[i] ?? 0))
    const cost = (await scriptsRun(server)) - (before[i] ?? 0)
    assert.ok(cost <= 2, `${cost} scripts`)
  }
  await end(grants)
})

test('of many renewed together, the one that another took over is lost, and one forgotten by a server is healed', async (t) => {
  const [{ driver }, { driver: other }] = (await clients(t, 2)) as [Cabled, Cabled]
  const grants = await acquired(driver, 'one by one')
  await other.forceRelease?.('one by one 3')
  const next = await other.acquire(claim('one by one 3', { ttl }), waiting())
  assert.ok(next)
  const [first] = here.servers
  await first?.cli('DEL', `${here.prefix}redlock{one by one 7}`)
  const outcomes = await renewed(grants)
  const lost = outcomes.flatMap((outcome, i) => {
    assert.equal(outcome.status, 'fulfilled')
    return outcome.status === 'fulfilled' && outcome.value === undefined ? [i] : []
  })
  assert.deepEqual(lost, [3])
  await until(
    async () => first !== undefined && (await votesAt(first, 'one by one 7', here.prefix)).length === 1,
  )
  assert.equal(await next.release(), 'released')
  await end(grants.filter((_, i) => i !== 3))
})

test('a minority of silent servers delays no renewal, and a majority fails each, without a loss', async (t) => {
  const [{ driver, cable }] = (await clients(t, 1)) as [Cabled]
  const grants = await acquired(driver, 'silent')
  cable(0).blackHole()
  cable(1).blackHole()
  const all = await renewed(grants)
  assert.ok(all.every((outcome) => outcome.status === 'fulfilled' && outcome.value !== undefined))
  const standing = grants.map(({ validUntil }) => validUntil)
  cable(2).blackHole()
  for (const outcome of await renewed(grants)) {
    assert.ok(outcome.status === 'rejected')
    assert.match(String(outcome.reason), /fewer than 3 servers renewed it .*server 3: no answer in time/)
  }
  assert.deepEqual(
    grants.map(({ validUntil }) => validUntil),
    standing,
  )
  for (const n of [0, 1, 2]) cable(n).heal()
  await end(grants)
})

after(leakCheck)
