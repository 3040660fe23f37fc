// What a majority is and is not: ballots as tokens, split votes, servers counted twice, too few of them.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { systemEnv } from '../../../src/core/engine.js'
import { type RedlockOptions, redlock } from '../../../src/drivers/redlock/index.js'
import { inspect, release, vote } from '../../../src/drivers/redlock/scripts.js'
import { voteArgs } from '../../../src/drivers/redlock/votes.js'
import { leakCheck } from '../../support/leaks.js'
import { startMany } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { claim, once, waiting } from '../support/asking.js'
import {
  ballotsAt,
  type Cabled,
  cabled,
  driverOf,
  locksOf,
  meet,
  now,
  type Scene,
  votesAt,
} from './support/scene.js'

const five = await startMany(5, { preload: ['clock'] })
after(() => five.stop())
const scene = (n: number): Scene => {
  const servers = five.servers.slice(0, n)
  return { servers, ports: servers.map(({ port }) => port), prefix: `${n}:` }
}

test('H33: a holder that slept through its lease knows at once, and its token is older than the next one', async (t) => {
  const [a, b] = [locksOf(t, scene(3)), locksOf(t, scene(3))]
  const slept = await a.mutex('h33').acquire({ ttl: 200, autoRenew: false })
  const next = await b.mutex('h33').acquire({ wait: 10_000 })
  assert.equal(slept.isHeld, false)
  assert.throws(() => slept.assertHeld(), { code: 'LEASE_LOST' })
  assert.ok(next.token > slept.token)
  assert.notEqual(await slept.release(), 'released')
  assert.ok(next.isHeld)
  assert.equal(await next.release(), 'released')
})

test('H34: the token is the winning ballot: it is what the servers voted for, and it grows across clients', async (t) => {
  const here = scene(3)
  const drivers = [driverOf(t, here), driverOf(t, here), driverOf(t, here, {}, 'node-redis')]
  await meet(here, ...drivers)
  let last = 0
  for (let i = 0; i < 30; i++) {
    const driver = drivers[i % drivers.length]
    const asked = claim('h34', { ttl: 30_000 })
    const grant = await driver?.acquire(asked, waiting())
    assert.ok(grant && grant.token > last, `${grant?.token} after ${last}`)
    last = grant.token
    const votes = await Promise.all(here.servers.map((server) => ballotsAt(server, 'h34', '3:')))
    const ballots = votes.map((at) => at.get(asked.attempt)?.ballot)
    const same = ballots.filter((ballot) => ballot === last)
    assert.ok(same.length >= 2, `voted for ${last}: ${ballots}`)
    assert.equal(await grant.release(), 'released')
  }
})

test('a round that is released late takes no vote from the round after it', async () => {
  const [server] = five.servers
  assert.ok(server)
  const keys = ['redlock{late round}', 'marker of the late round']
  await server.cli('SET', keys[1] ?? '', 'boot')
  const asked = { ...claim('late round'), attempt: 'late' }
  const ballot = Date.now() * 1_000
  const ask = async (round: number) => {
    const args = { claim: asked, round, ballot: ballot + round, rejoin: false, by: 'me', channel: undefined }
    return String(
      await server.cli(
        'EVAL',
        vote.text,
        2,
        ...keys,
        'boot',
        ...voteArgs({ ...args, alive: 0, retention: 60_000 }),
      ),
    ).slice(0, 1)
  }
  const giveBack = async (round: number, leave: boolean) =>
    String(
      await server.cli('EVAL', release.text, 1, keys[0] ?? '', 'late', round, 0, 60_000, leave ? 1 : 0),
    ).slice(0, 1)
  const votes = () => votesAt(server, 'late round', '')

  assert.deepEqual([await ask(1), await ask(2)], ['y', 'y'])
  assert.equal(await giveBack(1, false), 'f')
  assert.deepEqual(await votes(), ['late'], 'it is the vote of the second round')
  // The same if the first one is learned of after the second.
  assert.deepEqual([await ask(4), await ask(3), await giveBack(3, false)], ['y', 'y', 'f'])
  assert.deepEqual(await votes(), ['late'])
  assert.equal(await giveBack(4, false), 'y')
  assert.deepEqual(await votes(), [])
  // Whoever leaves leaves with all of its rounds.
  assert.deepEqual([await ask(5), await giveBack(0, true)], ['y', 'y'])
  assert.deepEqual(await votes(), [])
})

test('a waiter is queued until it holds, however late it asks and whatever its rounds come to, and no try overtakes it', async (t) => {
  const [server] = five.servers
  assert.ok(server)
  const keys = ['redlock{place}', 'marker of the place'] as const
  await server.cli('SET', keys[1], 'boot')
  const subscriber = new Redis(server.port)
  t.after(() => subscriber.disconnect())
  await subscriber.subscribe('b', 'd')
  const heard: string[] = []
  subscriber.on('message', (_, text) => heard.push(text))
  let ballot = Date.now() * 1_000 + 3_600_000_000
  const told = async (script: string, n: number, ...args: readonly (string | number)[]) =>
    String(await server.cli('EVAL', script, n, ...keys.slice(0, n), ...args)).slice(0, 1)
  const ask = (attempt: string, channel?: string, round = 1, mode: 'exclusive' | 'shared' = 'exclusive') => {
    const asked = { ...claim('place', { ttl: 600_000 }), attempt, mode: { kind: mode } }
    const args = { claim: asked, round, ballot: ++ballot, rejoin: false, by: 'me', channel }
    return told(vote.text, 2, 'boot', ...voteArgs({ ...args, alive: 300_000, retention: 600_000 }))
  }
  const giveBack = (attempt: string, leave: boolean, round = 1) =>
    told(release.text, 1, attempt, round, 0, 600_000, leave ? 1 : 0)
  const line = async () => {
    const all = (await server.cli('EVAL', inspect.text, 1, keys[0])) as (string | number)[]
    return all.slice(2).filter((_, i) => i % 7 === 0 && Number(all[i + 4]) === 0)
  }

  assert.equal(await ask('a'), 'y')
  assert.deepEqual([await ask('b', 'b'), await ask('d', 'd')], ['n', 'n'])
  assert.equal(await giveBack('a', true), 'y')
  // Far longer than the vote is kept for who was woken.
  const later = () => {
    server.clockJump(10_000)
    t.after(() => server.clockJump(-10_000))
  }
  later()
  assert.equal(await ask('c'), 'r', 'it has waited longer')
  assert.equal(await ask('reader', undefined, 1, 'shared'), 'r')

  // It has this vote, but no majority.
  assert.equal(await ask('b', 'b', 2), 'y')
  assert.deepEqual(await line(), ['d'], 'who has the vote is not shown to wait for it')
  assert.equal(await giveBack('b', false, 2), 'y')
  assert.deepEqual((await line()).sort(), ['b', 'd'])
  later()
  assert.equal(await ask('c'), 'r')
  // The other one has been told, and notifies nobody when it gives its votes back without the lock: they would wake each other for ever.
  assert.equal(await ask('d', 'd', 2), 'y')
  assert.equal(await giveBack('d', false, 2), 'y')
  assert.equal(await ask('d', 'd', 3), 'y')
  assert.equal(await giveBack('d', true, 3), 'y')
  assert.deepEqual(await line(), ['b'])
  await server.cli('PUBLISH', 'b', 'the end')
  await until(() => heard.at(-1) === 'the end')
  // By the release, the two tries, the round without a majority, after which it is last in the queue, the third try, and the other one that leaves.
  assert.deepEqual(heard.slice(0, -1), ['b', 'b', 'b', 'd', 'd', 'b'])

  await subscriber.unsubscribe('b')
  later()
  assert.equal(await ask('c'), 'y', 'who does not hear it is gone')
  assert.deepEqual(await line(), [])
  assert.equal(await giveBack('c', true), 'y')
})

test('H35: five contenders whose requests reach five servers in different orders are all served, one at a time', async (t) => {
  const here = scene(5)
  const contenders = await cabled(t, here, 5)
  await meet(here, ...contenders.map(({ driver }) => driver))
  for (const [i, { cable }] of contenders.entries()) {
    for (let j = 0; j < 5; j++) cable(j).up.delay(5 * ((i + j) % 5))
  }
  const holds: { readonly token: number; readonly from: number; readonly to: number }[] = []
  await Promise.all(
    contenders.flatMap(({ driver }) =>
      [1, 2].map(async () => {
        const grant = await driver.acquire(claim('h35', { ttl: 10_000 }), waiting())
        assert.ok(grant)
        const from = now()
        await Promise.resolve()
        holds.push({ token: grant.token, from, to: now() })
        await grant.release()
      }),
    ),
  )
  assert.equal(holds.length, 10)
  holds.sort((a, b) => a.from - b.from)
  for (const [i, hold] of holds.entries()) {
    const before = holds[i - 1]
    assert.ok(before === undefined || (before.to <= hold.from && before.token < hold.token))
  }
  await until(
    async () =>
      (await Promise.all(here.servers.map((one) => votesAt(one, 'h35', here.prefix)))).flat().length === 0,
  )
})

test('single attempts that split the votes do not all report "not free"', async (t) => {
  const here = scene(3)
  const tries = await cabled(t, here, 3)
  await meet(here, ...tries.map(({ driver }) => driver))
  const all = tries.map(({ cable }) => [0, 1, 2].map(cable))
  const foreign = all.flatMap((cables, own) => cables.filter((_, place) => place !== own))
  // Each gets the vote of one server, and then learns of the other two that they have voted for somebody else.
  for (const { up } of foreign) up.hold((bytes) => isVote(bytes))
  const asked = tries.map(({ driver }) => driver.acquire(claim('split', { ttl: 10_000 }), once()))
  await Promise.all(foreign.map(({ up }) => up.holding()))
  await until(async () => {
    const votes = await Promise.all(here.servers.map((server) => votesAt(server, 'split', here.prefix)))
    return votes.every(({ length }) => length === 1)
  })
  for (const { up, down } of foreign) {
    down.hold()
    up.pass()
  }
  await Promise.all(foreign.map(({ down }) => down.holding()))
  for (const { down } of foreign) down.pass()
  const grants = (await Promise.all(asked)).filter((grant) => grant !== undefined)
  assert.equal(grants.length, 1)
  assert.equal(await grants[0]?.release(), 'released')
})

const isVote = (bytes: Buffer) => /\r\nevalsha\r\n/i.test(bytes.toString())

test('H36: the same client given twice is refused at once, and two clients of one server at the first use', async (t) => {
  const [port = 0, other = 0] = scene(2).ports
  const clients = [port, port, other].map((to) => {
    const client = new Redis(to, '127.0.0.1', { lazyConnect: true })
    t.after(() => client.disconnect())
    return client
  })
  const [first, twin, third] = clients as [Redis, Redis, Redis]
  assert.throws(() => redlock({ clients: [first, third, first] }), {
    name: 'RangeError',
    message: /clients 0 and 2 are the same; each server has one vote/,
  })
  const driver = redlock({ clients: [first, third, twin] })(systemEnv())
  t.after(() => driver.close())
  for (const wait of [once(), waiting()]) {
    const error = await driver.acquire(claim('h36'), wait).then(undefined, (caught) => caught)
    assert.equal(error?.code, 'BACKEND', `${error}`)
    assert.match(error.message, /server 1 and server 3 are the same server/)
    await until(async () => {
      const again = await driver.inspect('h36').then(undefined, (caught) => caught)
      return /the same server/.test(again?.message)
    })
  }
  assert.deepEqual(await votesAt(five.servers[0] ?? assert.fail(), 'h36', 'hf:'), [])
})

test('bad options, too few clients and a Cluster are refused before anything is sent', (t) => {
  const clients = scene(3).ports.map((port) => new Redis(port, '127.0.0.1', { lazyConnect: true }))
  const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true })
  t.after(() => {
    for (const client of [...clients, cluster]) client.disconnect()
  })
  const refused = (options: unknown, name: string, message: RegExp) =>
    assert.throws(() => redlock(options as RedlockOptions)(systemEnv()), { name, message })
  refused(undefined, 'TypeError', /takes \{ clients: \[\.\.\.\] \}, got undefined/)
  refused({ clients: clients.slice(0, 2) }, 'RangeError', /at least 3 independent servers, got 2/)
  refused({ clients: [...clients.slice(0, 2), {}] }, 'TypeError', /client 2 must be an instance of ioredis/)
  refused({ clients: [...clients.slice(0, 2), cluster] }, 'TypeError', /client 2 is a Cluster/)
  refused({ clients, maxTtl: 1.5 }, 'RangeError', /maxTtl must be a whole number from 100 to \d+, got 1.5/)
  refused({ clients, commandTimeout: '1s' }, 'TypeError', /commandTimeout must be a number, got/)
  refused({ clients, retryDelay: 0 }, 'RangeError', /retryDelay .* got 0/)
  refused({ clients, retention: 1 }, 'RangeError', /retention .* got 1$/)
  refused({ clients, prefix: 'a{b' }, 'RangeError', /prefix must be a string without braces/)
  assert.ok(clients.every(({ status }) => status === 'wait'))
})

test('a ttl over maxTtl is refused, also when a lease is extended: a server is only left out for maxTtl', async (t) => {
  const driver = driverOf(t, scene(3), { maxTtl: 2_000 })
  await assert.rejects(driver.acquire(claim('longest', { ttl: 2_001 }), once()), {
    name: 'RangeError',
    message: /redlock: a ttl of 2001 ms is more than maxTtl 2000; set maxTtl as high in every process/,
    ttl: 2_001,
    maxTtl: 2_000,
  })
  const grant = await driver.acquire(claim('longest', { ttl: 2_000 }), waiting())
  assert.ok(grant)
  await assert.rejects(grant.renew(2_001, new AbortController().signal), /more than maxTtl 2000/)
  assert.equal(await grant.release(), 'released')
})

test('with an even number of servers half is not enough', async (t) => {
  const here = scene(4)
  const [a, b] = (await cabled(t, here, 2)) as [Cabled, Cabled]
  await meet(here, a.driver, b.driver)
  for (const n of [2, 3]) a.cable(n).blackHole()
  for (const n of [0, 1]) b.cable(n).blackHole()
  for (const { driver } of [a, b])
    await assert.rejects(driver.acquire(claim('even', { ttl: 30_000 }), once()), { code: 'BACKEND' })
  a.cable(2).heal()
  const grant = await a.driver.acquire(claim('even', { ttl: 30_000 }), waiting())
  assert.ok(grant)
  assert.equal(await grant.release(), 'released')
})

test('H32: one clock of five that jumps ends one vote, and four others still refuse', async (t) => {
  const here = scene(5)
  const [a, b] = [driverOf(t, here), driverOf(t, here)]
  await meet(here, a, b)
  const asked = claim('h32', { ttl: 20_000 })
  const grant = await a.acquire(asked, waiting())
  assert.ok(grant)
  await until(async () =>
    (await Promise.all(here.servers.map((one) => votesAt(one, 'h32', here.prefix)))).every(
      ([id]) => id === asked.attempt,
    ),
  )
  five.servers[2]?.clockJump(60_000)
  t.after(() => five.servers[2]?.clockJump(-60_000))
  assert.equal(await b.acquire(claim('h32', { ttl: 20_000 }), once()), undefined)
  assert.ok(now() < grant.validUntil)
  assert.equal(await grant.release(), 'released')
})

test('H32: a jump in the one server two majorities share breaks P1, which nothing here can prevent; tokens still grow', async (t) => {
  const here = scene(5)
  const [a, b, c] = (await cabled(t, here, 3)) as [Cabled, Cabled, Cabled]
  await meet(here, a.driver, b.driver, c.driver)
  for (const n of [3, 4]) a.cable(n).blackHole()
  for (const n of [0, 1]) b.cable(n).blackHole()
  const first = await a.driver.acquire(claim('h32 shared', { ttl: 20_000 }), waiting())
  assert.ok(first)
  five.servers[2]?.clockJump(60_000)
  t.after(() => five.servers[2]?.clockJump(-60_000))
  const second = await b.driver.acquire(claim('h32 shared', { ttl: 20_000 }), waiting())
  assert.ok(second)
  assert.ok(now() < first.validUntil, 'both are held now')
  assert.ok(second.token > first.token)
  await second.release()
  await first.release()
  for (const n of [1, 2]) c.cable(n).blackHole()
  const third = await c.driver.acquire(claim('h32 shared', { ttl: 20_000 }), waiting())
  assert.ok(third && third.token > second.token)
  await third.release()
})

test('H34: clocks of servers an hour apart in both directions do not make tokens go back, nor locks wait', async (t) => {
  const here = scene(5)
  const jumps = [3_600_000, -3_600_000, 0, 0, 0] as const
  const drivers = [driverOf(t, here), driverOf(t, here)]
  await meet(here, ...drivers)
  let last = 0
  const twice = async () => {
    for (const driver of drivers) {
      const grant = await driver.acquire(claim('apart', { ttl: 5_000 }), waiting())
      assert.ok(grant && grant.token > last)
      last = grant.token
      await grant.release()
    }
  }
  await twice()
  for (const [i, ms] of jumps.entries()) five.servers[i]?.clockJump(ms)
  await twice()
  for (const [i, ms] of jumps.entries()) five.servers[i]?.clockJump(-ms)
  await twice()
})

after(leakCheck)
