// What Redlock does when servers forget, freeze, are cut off or are gone.
// Second tier because it freezes and restarts servers for most of a minute; redlock-silence.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError } from '../../src/core/errors.js'
import {
  cabled,
  driverOf,
  locksOf,
  meet,
  now,
  type Scene,
  votesAt,
} from '../drivers/redlock/support/scene.js'
import { claim, never, once, waiting } from '../drivers/support/asking.js'
import { leakCheck } from '../support/leaks.js'
import { startMany } from '../support/servers/redis.js'
import { until } from '../support/until.js'

/** Of one test; stopped after its clients have closed, because ioredis keeps a timer for a connection that is gone already. */
const groups: { stop(): Promise<void> }[] = []
after(() => Promise.all(groups.map((one) => one.stop())))

async function group(n: number): Promise<Scene> {
  const started = await startMany(n)
  groups.push(started)
  const { servers } = started
  return { servers, ports: servers.map(({ port }) => port), prefix: 'hf:' }
}

test('with a majority down the error says what each server replied', async (t) => {
  const here = await group(3)
  await meet(here)
  const locks = locksOf(t, here, { commandTimeout: 100 })
  await (await locks.mutex('m').acquire()).release()
  for (const server of here.servers.slice(0, 2)) await server.kill9()
  await assert.rejects(locks.mutex('m').tryAcquire(), (error: Error) => {
    assert.ok(error instanceof BackendError)
    assert.match(
      error.message,
      /fewer than 2 of 3 servers can vote \(server 1: .+; server 2: .+; server 3: .+\)/,
    )
    return true
  })
  await assert.rejects(locks.mutex('m').acquire({ wait: 10_000 }), (error: Error) => {
    assert.match(
      error.message,
      /gave no answer about "m" within \d+ ms \(ECONNREFUSED .+\); redlock: fewer than 2 of 3/,
    )
    assert.ok(error.cause instanceof BackendError)
    return true
  })
})

test('H31: a server that restarts without its data finds no second majority while the first may still hold', async (t) => {
  const here = await group(3)
  const [, second, third] = here.servers
  assert.ok(second && third)
  const options = { maxTtl: 4_000 }
  const [a] = await cabled(t, here, 1, options)
  assert.ok(a)
  await meet(here, a.driver)
  a.cable(2).blackHole()
  const held = await a.driver.acquire(claim('h31', { ttl: 4_000 }), waiting())
  assert.ok(held)
  await second.restart({ keepData: false })

  // The plain recipe on the same servers: the second majority is there at once.
  const plain = await Promise.all(
    [second, third].map((server) => server.cli('SET', 'plain', 'b', 'NX', 'PX', 4_000)),
  )
  assert.deepEqual(
    plain,
    ['OK', 'OK'],
    'servers 2 and 3 know nothing of a lock that 1 and 2 would have given',
  )

  const b = driverOf(t, here, options)
  const next = await b.acquire(claim('h31', { ttl: 1_000 }), waiting())
  assert.ok(next)
  assert.ok(now() >= held.validUntil, `granted ${held.validUntil - now()} ms before the first lease ended`)
  assert.ok(next.token > held.token)
  await next.release()
})

test('H31: a server whose data were deleted finds no second majority either', async (t) => {
  const here = await group(3)
  const [, second] = here.servers
  assert.ok(second)
  const options = { maxTtl: 3_000 }
  const [a] = await cabled(t, here, 1, options)
  assert.ok(a)
  await meet(here, a.driver)
  a.cable(2).blackHole()
  const held = await a.driver.acquire(claim('flushed', { ttl: 3_000 }), waiting())
  assert.ok(held)
  await second.cli('FLUSHALL')
  const b = driverOf(t, here, options)
  const next = await b.acquire(claim('flushed', { ttl: 1_000 }), waiting())
  assert.ok(next)
  assert.ok(now() >= held.validUntil, `granted ${held.validUntil - now()} ms before the first lease ended`)
  assert.ok(next.token > held.token)
  await next.release()
})

test('H31: a life of a server that the others never met does not hide that its data were deleted', async (t) => {
  const here = await group(3)
  const third = here.servers[2]
  assert.ok(third)
  const [a, b] = await cabled(t, here, 2, { maxTtl: 3_000 })
  assert.ok(a && b)
  await meet(here, a.driver)
  a.cable(1).blackHole()
  await third.restart({ keepData: false })
  // Only the first server learns of its new life, and by now that is older than any lease.
  const early = await a.driver.acquire(claim('unmet', { ttl: 3_000 }), waiting())
  assert.equal(await early?.release(), 'released')
  const held = await a.driver.acquire(claim('unmet', { ttl: 3_000 }), waiting())
  assert.ok(held)
  await third.cli('FLUSHALL')
  b.cable(0).blackHole()
  const next = await b.driver.acquire(claim('unmet', { ttl: 1_000 }), waiting())
  assert.ok(next)
  assert.ok(now() >= held.validUntil, `granted ${held.validUntil - now()} ms before the first lease ended`)
  assert.ok(next.token > held.token)
  await next.release()
})

test('H37: one frozen server of five delays nobody, and keeps no vote once it wakes', async (t) => {
  const here = await group(5)
  const [frozen] = here.servers
  assert.ok(frozen)
  const driver = driverOf(t, here)
  await meet(here, driver)
  frozen.pause()
  for (let i = 0; i < 10; i++) {
    const grant = await driver.acquire(claim('h37', { ttl: 10_000 }), waiting())
    assert.ok(grant)
    assert.equal(await grant.release(), 'released')
  }
  frozen.resume()
  await until(async () => (await votesAt(frozen, 'h37', here.prefix)).length === 0, {
    what: 'its vote to be back',
  })
})

for (const [servers, frozen] of [
  [3, 1],
  [5, 1],
  [5, 2],
] as const) {
  test(`H37: contenders continue while ${frozen} of ${servers} servers are frozen, though they split the votes of the others`, async (t) => {
    const here = await group(servers)
    const contenders = [locksOf(t, here), locksOf(t, here), locksOf(t, here)]
    // Met before: a server that never answered has no vote.
    for (const locks of contenders) await locks.mutex('met').run(() => undefined)
    for (const server of here.servers.slice(0, frozen)) server.pause()
    t.after(() => {
      for (const server of here.servers) server.resume()
    })
    const grants = contenders.map(async (locks) => {
      for (let n = 0; n < 100; n++) await locks.mutex('h37').run(() => undefined, { wait: 20_000 })
    })
    await Promise.all(grants)
  })
}

test('an operator takes it, and the order comes twice: the next holder keeps it', async (t) => {
  const here = await group(3)
  const [a, b] = [driverOf(t, here), driverOf(t, here)]
  const [operator] = await cabled(t, here, 1, { commandTimeout: 20_000 })
  assert.ok(operator)
  await meet(here, a, b, operator.driver)
  // The servers know the script.
  assert.ok(await a.acquire(claim('before', { ttl: 30_000 }), waiting()))
  assert.equal(await operator.driver.forceRelease?.('before'), 1)
  const taken = claim('taken', { ttl: 30_000 })
  assert.ok(await a.acquire(taken, waiting()))
  const cables = here.servers.map((_, n) => operator.cable(n))
  for (const { up } of cables) up.hold((bytes) => bytes.includes(taken.attempt))
  const ended = operator.driver.forceRelease?.('taken')
  await Promise.all(cables.map(({ up }) => up.holding()))
  for (const { up, down } of cables) {
    down.hold()
    up.pass()
  }
  const next = await b.acquire(claim('taken', { ttl: 30_000 }), waiting())
  // The client sends again what was not answered before its connections broke.
  for (const cable of cables) {
    cable.reset()
    cable.heal()
  }
  assert.equal(await ended, 1)
  assert.ok(await next?.renew(30_000, never))
  assert.equal(await next?.release(), 'released')
})

test('H38: a renewal heals the vote of a server that lost it', async (t) => {
  const here = await group(3)
  const [, , third] = here.servers
  assert.ok(third)
  const driver = driverOf(t, here)
  await meet(here, driver)
  const asked = claim('h38', { ttl: 10_000 })
  const grant = await driver.acquire(asked, waiting())
  assert.ok(grant)
  await third.cli('DEL', `${here.prefix}redlock{h38}`)
  assert.ok(await grant.renew(10_000, new AbortController().signal))
  await until(async () => (await votesAt(third, 'h38', here.prefix)).includes(asked.attempt), {
    what: 'the vote to be healed',
  })
  assert.equal(await grant.release(), 'released')
})

test('H38: a renewal by a minority leaves the old deadline standing', async (t) => {
  const here = await group(3)
  const [a] = await cabled(t, here, 1)
  assert.ok(a)
  await meet(here, a.driver)
  const grant = await a.driver.acquire(claim('minority', { ttl: 10_000 }), waiting())
  assert.ok(grant)
  const before = grant.validUntil
  a.cable(1).blackHole()
  a.cable(2).blackHole()
  await assert.rejects(grant.renew(10_000, new AbortController().signal), {
    code: 'BACKEND',
    message: /fewer than 2 servers renewed it/,
  })
  assert.equal(grant.validUntil, before)
})

test('H39: a server that was cut off during the release is notified afterwards', async (t) => {
  const here = await group(3)
  const [, , third] = here.servers
  assert.ok(third)
  const [a] = await cabled(t, here, 1)
  assert.ok(a)
  await meet(here, a.driver)
  const asked = claim('h39', { ttl: 30_000 })
  const grant = await a.driver.acquire(asked, waiting())
  assert.ok(grant)
  await until(async () => (await votesAt(third, 'h39', here.prefix)).length === 1, {
    what: 'the third vote',
  })
  a.cable(2).blackHole()
  assert.equal(await grant.release(), 'released')
  a.cable(2).heal()
  await until(async () => (await votesAt(third, 'h39', here.prefix)).length === 0, {
    what: 'the vote to be back',
  })
})

test('a try that finds it taken takes no queue entry', async (t) => {
  const here = await group(3)
  const [a, b] = [driverOf(t, here), driverOf(t, here)]
  const grant = await a.acquire(claim('busy', { ttl: 10_000 }), waiting())
  assert.ok(grant)
  // A try has half of its ttl to get to know the servers.
  assert.equal(await b.acquire(claim('busy', { ttl: 10_000 }), once()), undefined)
  assert.deepEqual((await a.inspect('busy')).waiters, [])
  await grant.release()
})

test('H21: a server that may evict its votes is reported, or has none', async (t) => {
  const here = await group(3)
  const [evicting] = here.servers
  await evicting?.cli('CONFIG', 'SET', 'maxmemory', '100mb', 'maxmemory-policy', 'allkeys-lru')
  const warned: string[] = []
  const note = (warning: Error & { code?: string }) => void warned.push(warning.code ?? '')
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  await locksOf(t, here)
    .mutex('x')
    .run(() => undefined)
  await until(() => warned.includes('HOLDFAST_REDLOCK_EVICTION'))
  const strict = locksOf(t, here, { eviction: 'refuse' })
  await strict.mutex('x').run(() => undefined)
  await here.servers[1]?.kill9()
  await assert.rejects(
    strict.mutex('x').tryAcquire(),
    /server 1: maxmemory-policy allkeys-lru .* set noeviction/,
  )
})

after(leakCheck)
