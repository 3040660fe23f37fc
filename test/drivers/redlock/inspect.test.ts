// What `inspect` reports about a lock while the servers disagree, or some do not reply.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { vote } from '../../../src/drivers/redlock/scripts.js'
import { voteArgs } from '../../../src/drivers/redlock/votes.js'
import { leakCheck } from '../../support/leaks.js'
import { type RedisServer, startMany } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { claim, waiting } from '../support/asking.js'
import { type Cabled, cabled, meet, type Scene, votesAt } from './support/scene.js'

const five = await startMany(5)
after(() => five.stop())
const scene = (n: number): Scene => {
  const servers = five.servers.slice(0, n)
  return { servers, ports: servers.map(({ port }) => port), prefix: `inspect${n}:` }
}
const ttl = 60_000

/** A vote of this server for an attempt that has no other, as one that failed leaves it behind. */
async function leaveVote(server: RedisServer | undefined, { prefix }: Scene, name: string): Promise<string> {
  assert.ok(server)
  const marker = `${prefix}redlock!marker`
  const left = claim(name, { ttl })
  const args = voteArgs({
    ...{ claim: left, round: 1, ballot: 2 ** 52 - 1, rejoin: false, by: 'left', channel: undefined },
    ...{ alive: 0, retention: ttl },
  })
  const boot = String(await server.cli('GET', marker))
  const said = await server.cli('EVAL', vote.text, 2, `${prefix}redlock{${name}}`, marker, boot, ...args)
  assert.match(String(said), /^y/)
  return left.attempt
}

const attempts = async ({ driver }: Cabled, name: string) => {
  const { holders } = await driver.inspect(name)
  return holders.map(({ attempt }) => attempt)
}

test('a holder with a bare majority is listed while one of its servers does not answer', async (t) => {
  const here = scene(5)
  const [a, b] = (await cabled(t, here, 2, { commandTimeout: 2_000 })) as [Cabled, Cabled]
  await meet(here, a.driver, b.driver)
  for (const n of [3, 4]) a.cable(n).blackHole()
  const asked = claim('bare', { ttl })
  assert.ok(await a.driver.acquire(asked, waiting()))
  const given = () => Promise.all(here.servers.map((server) => votesAt(server, 'bare', here.prefix)))
  await until(async () => (await given()).filter(({ length }) => length === 1).length === 3)
  assert.deepEqual(await attempts(b, 'bare'), [asked.attempt])
  b.cable(2).blackHole()
  assert.deepEqual(await attempts(b, 'bare'), [asked.attempt])
  b.cable(1).blackHole()
  assert.deepEqual(await attempts(b, 'bare'), [asked.attempt])
  b.cable(0).blackHole()
  await assert.rejects(b.driver.inspect('bare'), { code: 'BACKEND' })
})

test('a vote left on one server by a failed attempt makes no holder, and is not named instead of the holder', async (t) => {
  const here = scene(5)
  const [a, b] = (await cabled(t, here, 2, { commandTimeout: 2_000 })) as [Cabled, Cabled]
  await meet(here, a.driver, b.driver)
  await leaveVote(here.servers[0], here, 'left')
  assert.deepEqual(await attempts(b, 'left'), [])
  b.cable(4).blackHole()
  assert.deepEqual(await attempts(b, 'left'), [])
  const asked = claim('left', { ttl })
  assert.ok(await a.driver.acquire(asked, waiting()))
  assert.deepEqual(await attempts(b, 'left'), [asked.attempt])
  const wait = waiting()
  const blocked = b.driver.acquire(claim('left', { ttl }), wait)
  await until(() => wait.told.length > 0)
  assert.equal(wait.told[0]?.holder?.attempt, asked.attempt)
  wait.end()
  assert.equal(await blocked, undefined)
})

test('of two attempts that split the votes, at most one is listed, however few servers answer', async (t) => {
  const here = scene(3)
  const [a] = (await cabled(t, here, 1, { commandTimeout: 2_000 })) as [Cabled]
  await meet(here, a.driver)
  const left = [
    await leaveVote(here.servers[0], here, 'split'),
    await leaveVote(here.servers[1], here, 'split'),
  ]
  assert.deepEqual(await attempts(a, 'split'), [])
  a.cable(2).blackHole()
  const [listed, ...others] = await attempts(a, 'split')
  assert.ok(listed !== undefined && left.includes(listed))
  assert.deepEqual(others, [])
})

test('a hold lasts as long as a majority says, not as the first server does', async (t) => {
  const here = scene(3)
  const [a, b] = (await cabled(t, here, 2, { commandTimeout: 2_000 })) as [Cabled, Cabled]
  await meet(here, a.driver, b.driver)
  const asked = claim('lasting', { ttl: 30_000 })
  const grant = await a.driver.acquire(asked, waiting())
  assert.ok(grant)
  const given = () => Promise.all(here.servers.map((server) => votesAt(server, 'lasting', here.prefix)))
  await until(async () => (await given()).every(({ length }) => length === 1))
  a.cable(0).blackHole()
  assert.ok(await grant.renew(ttl, new AbortController().signal))
  const { holders } = await b.driver.inspect('lasting')
  assert.ok((holders[0]?.expiresIn ?? 0) > 30_000, `it lasts ${holders[0]?.expiresIn} ms`)
})

after(leakCheck)
