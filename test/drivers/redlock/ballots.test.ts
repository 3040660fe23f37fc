// Which ballots are proposed and voted for when clocks differ, rounds are slow and servers forget.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { release, vote } from '../../../src/drivers/redlock/scripts.js'
import { voteArgs } from '../../../src/drivers/redlock/votes.js'
import { leakCheck } from '../../support/leaks.js'
import { type RedisServer, startMany } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { claim, once, waiting } from '../support/asking.js'
import { type Cabled, cabled, driverOf, meet, type Scene } from './support/scene.js'

const five = await startMany(5, { preload: ['clock'] })
after(() => five.stop())
const hour = 3_600_000
const scene = (n: number, prefix: string): Scene => {
  const servers = five.servers.slice(0, n)
  return { servers, ports: servers.map(({ port }) => port), prefix }
}

/** The last of these servers, its clock so far ahead until the test ends. */
function ahead(t: { after(back: () => void): void }, { servers }: Scene, ms: number): RedisServer {
  const server = servers.at(-1) ?? assert.fail()
  server.clockJump(ms)
  t.after(() => server.clockJump(-ms))
  return server
}

test('with two of five servers silent and a third ahead, rounds of a second come to an end', async (t) => {
  const here = scene(5, 'slow:')
  const [a] = (await cabled(t, here, 1)) as [Cabled]
  await meet(here, a.driver)
  for (const n of [0, 1]) a.cable(n).blackHole()
  ahead(t, here, 3_000)
  for (const name of ['slow', 'slow too', 'slow']) {
    const grant = await a.driver.acquire(claim(name, { ttl: 60_000 }), waiting())
    assert.ok(grant)
    assert.equal(await grant.release(), 'released')
  }
})

test('no round is too slow: each server names a ballot once, and does not raise it by itself', async (t) => {
  const here = scene(3, 'far:')
  const [a] = (await cabled(t, here, 1, { commandTimeout: 30_000 })) as [Cabled]
  await meet(here, a.driver)
  for (const n of [0, 1, 2]) a.cable(n).up.delay(1_200)
  const wait = waiting()
  const grant = await a.driver.acquire(claim('far', { ttl: 60_000 }), wait)
  assert.ok(grant)
  assert.equal(wait.told.length, 1, 'the second round is the last')
  for (const n of [0, 1, 2]) a.cable(n).up.pass()
  assert.equal(await grant.release(), 'released')
})

test('a server that is ahead raises only the ballots of locks that have no majority without it', async (t) => {
  const here = scene(3, 'crazy:')
  const [a] = (await cabled(t, here, 1)) as [Cabled]
  await meet(here, a.driver)
  ahead(t, here, hour)
  const soon = () => (Date.now() + hour / 2) * 1_000
  const taken = async (name: string) => {
    const grant = await a.driver.acquire(claim(name, { ttl: 10_000 }), waiting())
    assert.ok(grant)
    assert.equal(await grant.release(), 'released')
    return grant.token
  }
  // The third one says that this is too old for it, if it is heard at all: the others have voted.
  for (let i = 0; i < 5; i++) assert.ok((await taken('others')) < soon())
  a.cable(0).blackHole()
  assert.ok((await taken('needed')) > soon())
  a.cable(0).heal()
  await meet(here, a.driver)
  assert.ok((await taken('others')) < soon())
  assert.ok((await taken('needed')) > soon())
})

test('a lock is remembered until the clock has passed its ballots, so that tokens do not go back', async (t) => {
  const here = scene(3, 'idle:')
  const options = { retention: 1_000, commandTimeout: 500 }
  const [a] = (await cabled(t, here, 1, options)) as [Cabled]
  await meet(here, a.driver)
  ahead(t, here, hour)
  a.cable(0).blackHole()
  const first = await a.driver.acquire(claim('idle', { ttl: 10_000 }), waiting())
  assert.ok(first)
  assert.equal(await first.release(), 'released')
  // As long as a server remembers a lock nobody uses, and more.
  for (const server of here.servers) server.clockJump(60_000)
  t.after(() => {
    for (const server of here.servers) server.clockJump(-60_000)
  })
  const next = await driverOf(t, here, options).acquire(claim('idle', { ttl: 10_000 }), waiting())
  assert.ok(next && next.token > first.token, `${next?.token} after ${first.token}`)
  await next.release()
})

test('a try is repeated with the ballot that it was told, so a free lock does not look taken', async (t) => {
  const here = scene(3, 'try:')
  const [a, b] = (await cabled(t, here, 2)) as [Cabled, Cabled]
  await meet(here, a.driver, b.driver)
  ahead(t, here, hour)
  for (const { cable } of [a, b]) cable(0).blackHole()
  const first = await a.driver.acquire(claim('try', { ttl: 60_000 }), once())
  assert.ok(first)
  assert.equal(await b.driver.acquire(claim('try', { ttl: 60_000 }), once()), undefined)
  assert.equal(await first.release(), 'released')
  const next = await b.driver.acquire(claim('try', { ttl: 60_000 }), once())
  assert.ok(next && next.token > first.token)
  assert.equal(await next.release(), 'released')
})

test('a clock past the year 2112 has no vote until it is set right, and leaves nothing behind', async (t) => {
  const here = scene(3, 'late:')
  const [a] = (await cabled(t, here, 1, { commandTimeout: 500 })) as [Cabled]
  await meet(here, a.driver)
  a.cable(0).blackHole()
  const third = here.servers[2] ?? assert.fail()
  const ages = Date.UTC(2150, 0) - Date.now()
  third.clockJump(ages)
  const name = 'ages'
  await assert.rejects(a.driver.acquire(claim(name, { ttl: 10_000 }), once()), {
    code: 'BACKEND',
    message: /server 3: server clock is beyond 2112/,
  })
  third.clockJump(-ages)
  const grant = await a.driver.acquire(claim(name, { ttl: 10_000 }), waiting())
  assert.ok(grant && grant.token < (Date.now() + hour) * 1_000)
  assert.equal(await grant.release(), 'released')
})

test('a server’s votes: once it has named a ballot, only greater ones; and never a lower one than it may have forgotten', async (t) => {
  const [server] = five.servers
  assert.ok(server)
  const keys = ['redlock{named}', 'marker of the named']
  await server.cli('SET', keys[1] ?? '', 'boot')
  const base = claim('named', { ttl: 60_000 })
  const told = async (script: string, n: number, ...args: readonly (string | number)[]) =>
    String(await server.cli('EVAL', script, n, ...keys.slice(0, n), ...args)).split(/[\s,]+/)
  const ask = (attempt: string, ballot: number, rejoin = false) => {
    const asked = { claim: { ...base, attempt }, round: 1, ballot, rejoin, by: 'me', channel: undefined }
    return told(vote.text, 2, 'boot', ...voteArgs({ ...asked, alive: 0, retention: 60_000 }))
  }
  const giveBack = (attempt: string) => told(release.text, 1, attempt, 1, 0, 60_000, 1)

  const old = (Date.now() - 10_000) * 1_000
  const [letter, named] = await ask('a', old)
  assert.equal(letter, 'h')
  const floor = Number(named)
  assert.ok(floor > old)
  server.clockJump(30_000)
  t.after(() => server.clockJump(-30_000))
  assert.deepEqual((await ask('b', floor)).slice(0, 2), ['h', named], 'it has not gone on with the clock')
  assert.equal((await ask('c', floor + 1))[0], 'y')
  assert.equal((await giveBack('c'))[0], 'y')
  assert.equal((await ask('d', floor + 1))[0], 'h', 'nobody votes twice for one ballot')

  // It forgets, and the first one it learns of is a holder from before.
  await server.cli('DEL', keys[0] ?? '')
  assert.equal((await ask('holder', old, true))[0], 'y')
  assert.equal((await giveBack('holder'))[0], 'y')
  assert.equal((await ask('e', floor + 2))[0], 'h', 'what it had voted for meanwhile may be greater')
  await until(async () => (await ask('f', Number((await ask('g', 1))[1]) + 1))[0] === 'y')
})

after(leakCheck)
