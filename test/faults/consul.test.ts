// Messages that are lost, late or duplicated; sessions that end; queries that break; indexes that go back; the lock-delay.
// Second tier because it takes a third of a minute; the suite's outage and consul-garbled.test.ts are the part for every change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Locks } from 'holdfast'
import { exclusive, shared } from '../../src/core/mode.js'
import { encodePath, lockKeys } from '../../src/drivers/consul/keys.js'
import { cabled, driverOf, endSession, lockOf, locksOf, placesOf } from '../drivers/consul/support/scene.js'
import { never, once, waiting } from '../drivers/support/asking.js'
import { survivesClockJumps } from '../drivers/support/clock-jumps.js'
import { asked } from '../drivers/support/http-requests.js'
import { claim } from '../drivers/support/session-store.js'
import { fakeClock } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { until } from '../support/until.js'

const server = await startConsul()
after(() => server.stop())

test('a claim whose reply was lost is sent again and finds what it holds: one entry, one token', async (t) => {
  const { driver, cable } = await cabled(t, server)
  await (await driver.acquire(claim('warm'), once()))?.release()
  cable.down.hold()
  const asking = driver.acquire(claim('lost reply'), waiting())
  await cable.down.holding()
  const lock = await lockOf(server, 'lost reply')
  cable.reset()
  cable.down.pass()
  const grant = await asking
  assert.equal(grant?.token, lock?.ModifyIndex)
  assert.equal((await placesOf(server, 'lost reply')).length, 1)
  assert.equal(await grant?.release(), 'released')
  assert.equal(await lockOf(server, 'lost reply'), undefined)
})

test('a pass whose reply was lost gives nobody a token, and the grant is released', async (t) => {
  const { driver, cable } = await cabled(t, server)
  const other = driverOf(t, server.url)
  const grant = await driver.acquire(claim('lost pass'), once())
  const next = other.acquire(claim('lost pass'), waiting())
  await until(async () => (await placesOf(server, 'lost pass')).length === 2)
  cable.down.hold()
  const minted = grant?.nextToken?.().catch(() => undefined)
  await cable.down.holding()
  const { holders } = await other.inspect('lost pass')
  assert.ok(grant && (holders[0]?.token ?? 0) > grant.token, 'it was carried out')
  cable.reset()
  cable.down.pass()
  assert.equal(await minted, undefined)
  assert.match(await grant.release(), /released/)
  const granted = await next
  assert.ok((granted?.token ?? 0) > (holders[0]?.token ?? Number.POSITIVE_INFINITY))
  assert.deepEqual(
    (await other.inspect('lost pass')).holders.map(({ token }) => token),
    [granted?.token],
  )
  assert.equal(await granted?.release(), 'released')
})

test('a pass after the hold was removed by force mints nothing', async (t) => {
  const [driver, other] = [driverOf(t, server.url), driverOf(t, server.url)]
  const grant = await driver.acquire(claim('removed'), once())
  await other.forceRelease?.('removed')
  const next = await other.acquire(claim('removed'), waiting())
  assert.equal(await grant?.nextToken?.(), undefined)
  assert.deepEqual(
    (await other.inspect('removed')).holders.map(({ token }) => token),
    [next?.token],
  )
  assert.equal(await next?.release(), 'released')
})

test('a claim whose answer came after its ttl is proven anew: it is granted, and does not block everybody', async (t) => {
  const { driver, cable } = await cabled(t, server, { requestTimeout: 4_000 })
  const ttl = 2_000
  const other = await driverOf(t, server.url).acquire(claim('keeps the session'), once())
  // While this one waits the session is kept alive.
  const beside = driver.acquire(claim('keeps the session', { ttl }), waiting())
  await until(async () => (await placesOf(server, 'keeps the session')).length === 2)
  cable.down.hold((bytes) => bytes.includes('too late/.lock'))
  const asking = driver.acquire(claim('too late', { ttl }), waiting())
  await cable.down.holding()
  const at = performance.now()
  await until(() => performance.now() > at + ttl)
  cable.down.pass()
  const grant = await soon(asking)
  assert.equal(grant?.token, (await lockOf(server, 'too late'))?.ModifyIndex)
  assert.ok(grant && grant.validUntil > performance.now())
  assert.equal(await grant.release(), 'released')
  await other?.release()
  await (await beside)?.release()
})

test('a claim that was given up in flight takes nothing when it arrives after all', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late')
  // The request hangs on one connection; what is sent later goes over another and arrives before it.
  let tries = 0
  cable.up.hold((bytes) => bytes.includes(`late/.line/${one.attempt}`) && ++tries === 1)
  const wait = waiting()
  const asking = driver.acquire(one, wait).catch((error: unknown) => error)
  await cable.up.holding()
  wait.end()
  await clock.advance(200)
  await asking
  assert.ok(wait.told.length > 0)
  cable.up.letGo()
  cable.up.pass()
  // The very request, from a client that does not know it was given up.
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
  assert.deepEqual(await placesOf(server, 'late'), [])
  assert.equal(await lockOf(server, 'late'), undefined)
})

test('a claim that another agent answered takes nothing when it finally reaches the first', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, [server.url])
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late elsewhere')
  cable.up.hold((bytes) => bytes.includes(`late elsewhere/.line/${one.attempt}`))
  const asking = driver.acquire(one, waiting())
  await cable.up.holding()
  await clock.advance(300)
  const grant = await asking
  assert.ok(cable.up.held.length > 0, 'the first try is still on its way')
  assert.equal(await grant?.release(), 'released')
  // The very request, from a client that does not know it was released.
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
  assert.equal(await lockOf(server, 'late elsewhere'), undefined)
})

test('a release whose reply was lost is answered when it is repeated, and affects nobody', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  const grant = await driver.acquire(claim('lost release'), once())
  cable.down.drop()
  const refused = assert.rejects(grant?.release() ?? Promise.resolve(), { code: 'BACKEND' })
  await until(async () => (await lockOf(server, 'lost release')) === undefined)
  await clock.advance(200)
  await refused
  const second = await driverOf(t, server.url).acquire(claim('lost release'), once())
  assert.ok(second)
  cable.down.pass()
  assert.equal(await grant?.release(), 'already-released')
  assert.equal((await lockOf(server, 'lost release'))?.ModifyIndex, second.token)
  assert.equal(await second.release(), 'released')
})

test('a lease that is renewed several times at once, for longer than its session, is moved and stays', async (t) => {
  const driver = driverOf(t, server.url)
  for (const mode of [exclusive, shared]) {
    const name = `moved ${mode.kind}`
    const grant = await driver.acquire(claim(name, { mode }), once())
    const renewals = [60_000, 60_000, 90_000].map((ttl) => grant?.renew(ttl, never))
    for (const until of await Promise.all(renewals)) assert.ok((until ?? 0) > 0)
    assert.equal(await grant?.release(), 'released')
    assert.equal(await lockOf(server, name), undefined)
    assert.deepEqual(await placesOf(server, name), [])
  }
})

test('a lease whose move to another session was carried out and not answered is not lost, and can be released', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  const beside = await driver.acquire(claim('beside'), once())
  for (const then of ['sent again', 'renewed', 'renewed for less', 'looked at', 'given back'] as const) {
    const name = `moving, ${then}`
    const grant = await driver.acquire(claim(name), once())
    const { Session } = (await lockOf(server, name)) ?? {}
    cable.down.hold((bytes) => bytes.includes(`${name}/.lock`))
    const renewing = grant?.renew(60_000, never).catch((error: { code?: unknown }) => error.code)
    await cable.down.holding()
    assert.notEqual((await lockOf(server, name))?.Session, Session)
    if (then === 'sent again') cable.reset()
    else await clock.advance(200)
    cable.down.pass()
    if (then === 'sent again') assert.ok(Number(await renewing) > 0)
    else assert.equal(await renewing, 'BACKEND')
    // The session it is of as far as the driver knows is proven, and what is kept by it with it.
    if (then === 'looked at') assert.ok(((await beside?.renew(1_000, never)) ?? 0) > 0)
    const ttl = then === 'renewed for less' ? 20_000 : 60_000
    if (then !== 'given back') assert.ok(((await grant?.renew(ttl, never)) ?? 0) > 0)
    assert.equal(await grant?.release(), 'released')
    assert.equal(await lockOf(server, name), undefined)
    assert.deepEqual(await placesOf(server, name), [])
  }
})

test('a writer whose change to a reader was carried out and not answered is a reader, and stays one when it is moved', async (t) => {
  const { driver, cable } = await cabled(t, server, { requestTimeout: 60_000 })
  const grant = await driver.acquire(claim('becomes'), once())
  cable.down.hold((bytes) => bytes.includes('becomes/.line'))
  const becoming = grant?.downgrade?.()
  await cable.down.holding()
  cable.reset()
  cable.down.pass()
  await becoming
  assert.ok(((await grant?.renew(60_000, never)) ?? 0) > 0)
  const other = await driverOf(t, server.url).acquire(claim('becomes', { mode: shared }), once())
  assert.equal(await other?.release(), 'released')
  assert.equal(await grant?.release(), 'released')
  assert.deepEqual(await placesOf(server, 'becomes'), [])
})

test('a try that got no answer, and then found no other agent, takes nothing when it arrives after all', async (t) => {
  const clock = fakeClock()
  // Nobody listens there.
  const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, ['127.0.0.1:1'])
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late, then refused')
  const sent = (bytes: Buffer) => bytes.includes(one.attempt)
  let tries = 0
  cable.up.hold((bytes) => sent(bytes) && ++tries === 1)
  const refused = assert.rejects(driver.acquire(one, once()), { code: 'BACKEND', message: /ECONNREFUSED/ })
  await cable.up.holding()
  await clock.advance(300)
  await refused
  cable.up.pass()
  // The very request, from a client that does not know it was given up.
  await assert.rejects(driverOf(t, server.url).acquire(one, once()), /given up/)
})

test('a cell with an expiry does not disappear with the session of an unanswered write', async (t) => {
  const clock = fakeClock()
  for (const [how, requestTimeout] of [
    ['sent again', 60_000],
    ['asked again', 200],
  ] as const) {
    const { driver, cable } = await cabled(t, server, { requestTimeout }, clock)
    const { cells } = driver
    assert.ok(cells)
    await (await driver.acquire(claim('warm'), once()))?.release()
    const change = { ifVersion: 0, value: 'kept', ttl: 60_000, id: 'c'.repeat(32) }
    const write = () => cells.write(how, change, never)
    cable.down.hold((bytes) => bytes.includes(`%cell/${how}`))
    const paths = await asked(async () => {
      const writing = write()
      await cable.down.holding()
      if (how === 'sent again') cable.reset()
      else {
        const refused = assert.rejects(writing, { code: 'BACKEND' })
        await clock.advance(requestTimeout)
        await refused
      }
      cable.down.pass()
      const cell = await (how === 'sent again' ? writing : write())
      assert.equal(cell?.value, 'kept')
      assert.deepEqual(await cells.read(how, never), cell)
    })
    // That of the second call, by which nothing was written.
    const destroyed = paths.filter((path) => path.startsWith('/v1/session/destroy')).length
    assert.equal(destroyed, how === 'sent again' ? 0 : 1)
  }
})

test('a claim given up in a session that has since ended, and that was moved before, is released', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, [server.url])
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('moved from doubt')
  cable.up.hold((bytes) => bytes.includes(one.attempt))
  const asking = driver.acquire(one, waiting())
  await cable.up.holding()
  await clock.advance(300)
  const grant = await asking
  const { Session } = (await lockOf(server, one.name)) ?? {}
  assert.ok(((await grant?.renew(60_000, never)) ?? 0) > 0)
  await endSession(server, Session)
  assert.equal(await grant?.release(), 'released')
  assert.equal(await lockOf(server, one.name), undefined)
  cable.up.pass()
})

test('a mutex queued behind readers never reports a grant while it still has to release the lock, waiting or trying', async (t) => {
  const name = 'behind readers'
  const reader = await driverOf(t, server.url).acquire(claim(name, { mode: shared }), once())
  const tells = driverOf(t, server.url)
  for (const wait of [waiting(), once()]) {
    const { driver, cable } = await cabled(t, server)
    await (await driver.acquire(claim('warm'), once()))?.release()
    // What gives the lock back, by its index.
    cable.up.hold('check-index')
    const asked = driver.acquire(claim(name), wait)
    await cable.up.holding()
    assert.ok(await lockOf(server, name), 'it has the lock for now')
    const { holders, waiters } = await tells.inspect(name)
    assert.deepEqual([holders.map(({ token }) => token), waiters.length], [[reader?.token], 1])
    cable.up.pass()
    wait.end()
    assert.equal(await asked, undefined)
  }
  assert.equal(await tells.forceRelease?.(name), 1)
  assert.equal(await reader?.renew(30_000, never), undefined)
})

test('a lock taken by force is not taken from the next one, too, when the answer was lost', async (t) => {
  const { driver, cable } = await cabled(t, server)
  await driver.inspect('by force')
  const holder = await driverOf(t, server.url).acquire(claim('by force'), once())
  const waits = driverOf(t, server.url).acquire(claim('by force'), waiting())
  await until(async () => (await placesOf(server, 'by force')).length === 2)
  cable.up.hold('check-index')
  const forced = driver.forceRelease?.('by force')
  await cable.up.holding()
  cable.down.hold()
  cable.up.pass()
  await cable.down.holding()
  const next = await waits
  assert.ok(holder && next && next.token > holder.token)
  cable.reset()
  cable.down.pass()
  assert.equal(await forced, 1)
  assert.equal((await driver.inspect('by force')).holders[0]?.token, next.token)
  assert.equal(await next.release(), 'released')
})

test('two holders of one process share a session, and still exclude each other', async (t) => {
  const driver = driverOf(t, server.url)
  const one = await driver.acquire(claim('same session'), once())
  assert.equal(await driver.acquire(claim('same session'), once()), undefined)
  const waits = driver.acquire(claim('same session'), waiting())
  await until(async () => (await placesOf(server, 'same session')).length === 2)
  // Also when an operator has taken the first one's place, but not its lock.
  await server.ask(
    'DELETE',
    `/v1/kv/${(await placesOf(server, 'same session'))[0]?.Key.replaceAll(' ', '%20')}`,
  )
  const early = await Promise.race([
    waits.then(() => true),
    new Promise((resolve) => setTimeout(resolve, 300, false)),
  ])
  assert.equal(early, false, 'the lock was taken again by the session that has it')
  assert.equal(await one?.release(), 'released')
  assert.equal(await (await waits)?.release(), 'released')
})

test('a session that was ended is a definite loss at the next renewal, and the lock is free', async (t) => {
  const [driver, other] = [driverOf(t, server.url), driverOf(t, server.url)]
  const one = await driver.acquire(claim('ended'), once())
  const waits = other.acquire(claim('ended'), waiting())
  await until(async () => (await placesOf(server, 'ended')).length === 2)
  await endSession(server, (await lockOf(server, 'ended'))?.Session)
  const next = await waits
  assert.ok(one && next && next.token > one.token)
  assert.equal(await one.renew(1_000, never), undefined)
  assert.equal(await one.release(), 'lost')
  assert.equal(await next.release(), 'released')
})

test('a waiter whose session ended queues again and does not believe that it holds', async (t) => {
  const [a, b, c] = [driverOf(t, server.url), driverOf(t, server.url), driverOf(t, server.url)]
  const name = 'session of a waiter'
  const holder = await a.acquire(claim(name, { ttl: 20_000 }), once())
  const waits = b.acquire(claim(name, { ttl: 3_000 }), waiting())
  await until(async () => (await placesOf(server, name)).length === 2)
  const third = c.acquire(claim(name, { ttl: 20_000 }), waiting())
  await until(async () => (await placesOf(server, name)).length === 3)
  await endSession(server, (await placesOf(server, name))[1]?.Session)
  await until(async () => (await placesOf(server, name)).length === 3, { within: 20_000 })
  await holder?.release()
  assert.equal(await Promise.race([waits.then(() => 'b'), third.then(() => 'c')]), 'c')
  await (await third)?.release()
  assert.equal(await (await waits)?.release(), 'released')
})

test('a query that hangs is also replaced after the blocking entry was written to, and where only the lock is in the way', async (t) => {
  const { driver, cable } = await cabled(t, server)
  const silent = () => cable.down.hold((bytes) => /^HTTP\/1.1 404/.test(bytes.toString()))
  const [a, b] = [driverOf(t, server.url), driverOf(t, server.url)]
  const writer = await a.acquire(claim('written to'), once())
  const reads = b.acquire(claim('written to', { mode: shared }), waiting())
  await until(async () => (await placesOf(server, 'written to')).length === 2)
  const waits = driver.acquire(claim('written to', { ttl: 1_500 }), waiting())
  await until(async () => (await placesOf(server, 'written to')).length === 3)
  silent()
  await writer?.release()
  // The reader holds now, which its place says; then it goes, and nobody is told.
  await (await reads)?.release()
  assert.equal(await (await soon(waits))?.release(), 'released')
  cable.down.pass()

  const { lock } = lockKeys('holdfast/', 'only the lock')
  const { ID } = (await server.ask('PUT', '/v1/session/create', '{"LockDelay":"0s"}')) as { ID: string }
  await server.ask('PUT', `/v1/kv/${encodePath(lock)}?acquire=${ID}`, 'theirs')
  const wait = waiting()
  const behind = driver.acquire(claim('only the lock', { ttl: 1_500 }), wait)
  await until(() => wait.told.length > 0)
  silent()
  await server.ask('DELETE', `/v1/kv/${encodePath(lock)}`)
  assert.equal(await (await soon(behind))?.release(), 'released')
  cable.down.pass()
})

/** Long before the query would have ended by itself, after a minute. */
async function soon<T>(work: Promise<T>): Promise<T> {
  let done = false
  const settled = () => {
    done = true
  }
  work.then(settled, settled)
  await until(() => done, { within: 20_000, what: 'the waiter to be served' })
  return work
}

test('a query that breaks is sent again, and one that hangs is replaced at the next heartbeat', async (t) => {
  for (const how of ['reset', 'silence'] as const) {
    const name = `query ${how}`
    const { driver, cable } = await cabled(t, server)
    const holder = await driverOf(t, server.url).acquire(claim(name, { ttl: 10_000 }), once())
    const asking = cable.up.bytes
    const waits = driver.acquire(claim(name, { ttl: 1_500 }), waiting())
    await until(async () => (await placesOf(server, name)).length === 2)
    await until(() => cable.up.bytes > asking + 1_000)
    if (how === 'reset') cable.reset()
    // The answer to a query that finds nothing any more.
    else cable.down.hold('404 Not Found')
    await holder?.release()
    const grant = await waits
    cable.down.pass()
    assert.equal(await grant?.release(), 'released')
  }
})

test('after a restart without data, with indexes that go back, waiters queue again', async (t) => {
  await using other = await startConsul()
  const [a, b] = [driverOf(t, other.url), driverOf(t, other.url)]
  for (let i = 0; i < 30; i++) await other.ask('PUT', '/v1/kv/busy', String(i))
  const holder = await a.acquire(claim('forgotten', { ttl: 20_000 }), once())
  const waits = b.acquire(claim('forgotten', { ttl: 1_500 }), waiting())
  await until(async () => (await placesOf(other, 'forgotten')).length === 2)
  await other.restart()
  const grant = await waits
  assert.ok(grant)
  assert.equal((await lockOf(other, 'forgotten'))?.ModifyIndex, grant.token)
  assert.equal(await holder?.renew(1_000, never).catch(() => undefined), undefined)
  await grant.release()
})

test('H58: gossip about a dead agent ends a session with the usual checks, and none of ours', async (t) => {
  const driver = driverOf(t, server.url)
  const grant = await driver.acquire(claim('gossip', { ttl: 60_000 }), once())
  const { ID } = (await server.ask('PUT', '/v1/session/create', '{}')) as { ID: string }
  const [{ Node, Address }] = (await server.ask('GET', '/v1/catalog/nodes')) as [
    { Node: string; Address: string },
  ]
  const Check = { Node, CheckID: 'serfHealth', Name: 'Serf Health Status', Status: 'critical' }
  await server.ask('PUT', '/v1/catalog/register', JSON.stringify({ Node, Address, Check }))
  const ended = async () => ((await server.ask('GET', `/v1/session/info/${ID}`)) as unknown[]).length === 0
  await until(ended, { within: 20_000 })
  assert.ok(((await grant?.renew(60_000, never)) ?? 0) > 0)
  assert.equal(await grant?.release(), 'released')
  await server.ask(
    'PUT',
    '/v1/catalog/register',
    JSON.stringify({ Node, Address, Check: { ...Check, Status: 'passing' } }),
  )
})

test('H59: the LockIndex restarts with the key, the token does not', async (t) => {
  const driver = driverOf(t, server.url)
  const seen: { token: number; index: unknown }[] = []
  for (let i = 0; i < 3; i++) {
    const grant = await driver.acquire(claim('lock index'), once())
    const { LockIndex } = (await lockOf(server, 'lock index')) as { LockIndex?: number }
    seen.push({ token: grant?.token ?? 0, index: LockIndex })
    await grant?.release()
  }
  assert.deepEqual(
    seen.map(({ index }) => index),
    [1, 1, 1],
  )
  const tokens = seen.map(({ token }) => token)
  assert.ok(tokens.every((token, i) => i === 0 || token > (tokens[i - 1] ?? 0)))
})

test('the lock-delay keeps a mutex unavailable after its holder has died, and not after a release', async (t) => {
  const lockDelay = 4_000
  const [a, b] = [driverOf(t, server.url, { lockDelay }), locksOf(t, server.url).locks]
  const one = await a.acquire(claim('delayed'), once())
  const id = (await lockOf(server, 'delayed'))?.Session
  const from = performance.now()
  await endSession(server, id)
  assert.equal(await b.mutex('delayed').tryAcquire(), undefined)
  const lease = await b.mutex('delayed').acquire()
  const took = performance.now() - from
  assert.ok(took > lockDelay, `free after ${took} ms`)
  assert.ok(one && lease.token > one.token)
  await lease.release()
  const two = await a.acquire(claim('delayed'), once())
  assert.equal(await two?.release(), 'released')
  const next = await b.mutex('delayed').tryAcquire()
  assert.ok(next)
  await next.release()
})

test('a holder that is cut off reports its loss before Consul gives the lock to another client', async (t) => {
  const { driver, cable } = await cabled(t, server)
  const grant = await driver.acquire(claim('cut off', { ttl: 2_000 }), once())
  assert.ok(grant)
  const waits = driverOf(t, server.url).acquire(claim('cut off'), waiting())
  cable.blackHole()
  const next = await waits
  assert.ok(performance.now() > grant.validUntil, 'the next holds before the first knows it does not')
  assert.ok(next && next.token > grant.token)
  cable.heal()
  // Until a connection is there again it cannot tell.
  await until(async () => (await grant.renew(2_000, never).catch(() => 0)) === undefined)
  assert.equal(await next.release(), 'released')
})

test('a client whose wall clock jumps holds on, and is served when it is its turn', async (t) => {
  const module = new URL('../drivers/consul/support/in-child.js', import.meta.url).href
  await survivesClockJumps(t, locksOf(t, server.url).locks as Locks, { module, args: [[server.url]] })
})

test('closing releases everything at once: lock, queue entries and sessions', async (t) => {
  const driver = driverOf(t, server.url)
  const sessions = async () =>
    ((await server.ask('GET', '/v1/session/list?consistent')) as { ID: string }[]).map(({ ID }) => ID)
  const before = await sessions()
  await driver.acquire(claim('closing'), once())
  const wait = waiting()
  const waits = driver.acquire(claim('closing'), wait)
  await until(async () => (await placesOf(server, 'closing')).length === 2)
  wait.end()
  await driver.close()
  assert.deepEqual(await placesOf(server, 'closing'), [])
  assert.equal(await lockOf(server, 'closing'), undefined)
  // Some of other tests may have ended meanwhile.
  for (const id of await sessions()) assert.ok(before.includes(id))
  assert.equal(await waits, undefined)
})

after(leakCheck)
