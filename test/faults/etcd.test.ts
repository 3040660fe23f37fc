// Messages that are lost, late or duplicated; leases that end; watches that break.
import assert from 'node:assert/strict'
import { once as event } from 'node:events'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import type { Locks } from 'holdfast'
import { cabled, driverOf, locksOf, placeKey, placesOf, put } from '../drivers/etcd/support/scene.js'
import { never, once, waiting } from '../drivers/support/asking.js'
import { survivesClockJumps } from '../drivers/support/clock-jumps.js'
import { asked } from '../drivers/support/http-requests.js'
import { claim } from '../drivers/support/session-store.js'
import { fakeClock } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcd } from '../support/servers/etcd.js'
import { until } from '../support/until.js'

const server = await startEtcd()
after(() => server.stop())

/** How many watches the server serves. */
async function watchers(): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { headers: { connection: 'close' } })).text()
  return Number(/^etcd_debugging_mvcc_watcher_total (\S+)$/m.exec(text)?.[1])
}

const said = (text: string) => (bytes: Buffer) => bytes.includes(text)

test('a claim whose reply was lost is sent again and finds its queue entry: one entry, one token', async (t) => {
  const { driver, cable } = await cabled(t, server)
  await (await driver.acquire(claim('warm'), once()))?.release()
  cable.down.hold()
  const asking = driver.acquire(claim('lost reply'), waiting())
  await cable.down.holding()
  const [place] = await placesOf(server, 'lost reply')
  cable.reset()
  cable.down.pass()
  const grant = await asking
  const places = await placesOf(server, 'lost reply')
  assert.deepEqual(
    places.map(({ create_revision }) => create_revision),
    [place?.create_revision],
  )
  assert.equal((await driver.inspect('lost reply')).holders[0]?.token, grant?.token)
  assert.equal(await grant?.release(), 'released')
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

test('a poll that arrives after another member answered it does not change the token of the hold', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, [server.url])
  const other = driverOf(t, server.url)
  const holder = await other.acquire(claim('late look'), once())
  const one = claim('late look')
  const asking = driver.acquire(one, waiting())
  await until(async () => (await placesOf(server, one.name)).length === 2)
  await until(async () => (await watchers()) > 0)
  cable.up.hold(said(placeKey(one.name, one.attempt)))
  await holder?.release()
  await cable.up.holding()
  const { held } = cable.up
  await clock.advance(300)
  const grant = await asking
  const late = connect(server.port, '127.0.0.1')
  late.write(Buffer.concat(held.map(({ bytes }) => bytes)))
  await event(late, 'data')
  late.destroy()
  assert.ok(grant)
  assert.equal((await other.inspect(one.name)).holders[0]?.token, grant.token)
  const next = await grant.nextToken?.()
  assert.ok(next !== undefined && next > grant.token, 'it is passed on')
  assert.equal(await grant.release(), 'released')
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

test('a claim that was given up in flight takes no queue entry when it arrives after all', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late')
  // The request hangs on one connection; what is sent later goes over another and arrives before it.
  const sent = said(placeKey('late', one.attempt))
  let tries = 0
  cable.up.hold((bytes) => sent(bytes) && ++tries === 1)
  const wait = waiting()
  const asking = driver.acquire(one, wait).catch((error: unknown) => error)
  const [held] = await cable.up.holding()
  assert.ok(held?.link.open)
  wait.end()
  await clock.advance(200)
  await asking
  assert.ok(wait.told.length > 0)
  cable.up.letGo()
  cable.up.pass()
  // The very request, from a client that does not know it was given up.
  const direct = driverOf(t, server.url)
  await assert.rejects(direct.acquire(one, waiting()), /given up/)
  assert.deepEqual(await placesOf(server, 'late'), [])
})

test('a claim that another member answered takes no queue entry when it finally reaches the first', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, [server.url])
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late elsewhere')
  cable.up.hold(said(placeKey('late elsewhere', one.attempt)))
  const asking = driver.acquire(one, waiting())
  await cable.up.holding()
  await clock.advance(300)
  const grant = await asking
  assert.ok(cable.up.held.length > 0, 'the first try is still on its way')
  assert.equal(await grant?.release(), 'released')
  // The very request, from a client that does not know it was released.
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
  assert.deepEqual(await placesOf(server, 'late elsewhere'), [])
})

test('a try that got no answer, and then found no other member, takes nothing when it arrives after all', async (t) => {
  const clock = fakeClock()
  // Nobody listens there.
  const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, ['127.0.0.1:1'])
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('late, then refused')
  const sent = said(placeKey(one.name, one.attempt))
  let tries = 0
  cable.up.hold((bytes) => sent(bytes) && ++tries === 1)
  const refused = assert.rejects(driver.acquire(one, once()), { code: 'BACKEND', message: /ECONNREFUSED/ })
  await cable.up.holding()
  await clock.advance(300)
  await refused
  cable.up.pass()
  // The very request, from a client that does not know it was given up.
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
})

test('a claim given up under a lease that has since ended, and that was moved before, is released', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, [server.url])
  await (await driver.acquire(claim('warm'), once()))?.release()
  const one = claim('moved from doubt')
  cable.up.hold(said(placeKey(one.name, one.attempt)))
  const asking = driver.acquire(one, waiting())
  await cable.up.holding()
  await clock.advance(300)
  const grant = await asking
  const [place] = await placesOf(server, one.name)
  assert.ok(((await grant?.renew(60_000, never)) ?? 0) > 0)
  await server.ask('/v3/lease/revoke', { ID: place?.lease })
  assert.equal(await grant?.release(), 'released')
  assert.deepEqual(await placesOf(server, one.name), [])
  cable.up.pass()
})

test('a lease whose move to another was not answered is kept by the one it is under, whatever it is renewed for', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  const grant = await driver.acquire(claim('moving'), once())
  const [before] = await placesOf(server, 'moving')
  let tries = 0
  cable.down.hold((bytes) => bytes.includes('response_put') && ++tries === 1)
  const renewing = grant?.renew(60_000, never).catch((error: { code?: unknown }) => error.code)
  await cable.down.holding()
  await clock.advance(200)
  assert.equal(await renewing, 'BACKEND')
  cable.down.pass()
  // For less than where it is now: the first lease would do.
  assert.ok(((await grant?.renew(20_000, never)) ?? 0) > 0)
  await server.ask('/v3/lease/revoke', { ID: before?.lease })
  // What was proven a moment ago is not asked again.
  await clock.advance(5_000)
  assert.ok(((await grant?.renew(20_000, never)) ?? 0) > 0)
  await server.ask('/v3/lease/revoke', { ID: (await placesOf(server, 'moving'))[0]?.lease })
  await clock.advance(5_000)
  assert.equal(await grant?.renew(20_000, never), undefined)
})

test('a move that arrives after a later one takes the place nowhere', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 300 }, clock, [server.url])
  const one = claim('moved twice')
  const grant = await driver.acquire(one, once())
  cable.up.hold(said(placeKey(one.name, one.attempt)))
  const renewing = grant?.renew(60_000, never)
  await cable.up.holding()
  await clock.advance(300)
  assert.ok(((await renewing) ?? 0) > 0)
  assert.ok(((await grant?.renew(90_000, never)) ?? 0) > 0)
  const [place] = await placesOf(server, one.name)
  const late = connect(server.port, '127.0.0.1')
  late.write(Buffer.concat(cable.up.held.map(({ bytes }) => bytes)))
  await event(late, 'data')
  late.destroy()
  assert.equal((await placesOf(server, one.name))[0]?.lease, place?.lease)
  assert.equal(await grant?.release(), 'released')
})

test('pooled connections that break one after the other are a transient failure: the claim is sent again', async (t) => {
  const { driver, cable } = await cabled(t, server)
  // A try and a look beside it: two connections are kept.
  await Promise.all(['k1', 'k2'].map(async (name) => (await driver.acquire(claim(name), once()))?.release()))
  assert.ok(cable.links.length >= 2)
  const one = claim('two broken')
  const sent = said(placeKey('two broken', one.attempt))
  const broken: number[] = []
  cable.up.hold(sent)
  const asking = driver.acquire(one, waiting())
  for (let n = 1; n <= 2; n++) {
    const held = await until(() => cable.up.held.find(({ link }) => !broken.includes(link.id)))
    broken.push(held.link.id)
    held.link.reset()
  }
  cable.up.pass()
  assert.equal(await (await asking)?.release(), 'released')
  // It may have been carried out on either of them.
  await assert.rejects(driverOf(t, server.url).acquire(one, waiting()), /given up/)
})

test('a release whose reply was lost is answered when it is repeated, and affects nobody', async (t) => {
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { requestTimeout: 200 }, clock)
  const other = driverOf(t, server.url)
  const grant = await driver.acquire(claim('lost release'), once())
  cable.down.drop()
  const refused = assert.rejects(grant?.release() ?? Promise.resolve(), { code: 'BACKEND' })
  await until(async () => (await placesOf(server, 'lost release')).length === 0)
  await clock.advance(200)
  await refused
  const second = await other.acquire(claim('lost release'), once())
  assert.ok(second)
  cable.down.pass()
  assert.equal(await grant?.release(), 'already-released')
  assert.equal((await placesOf(server, 'lost release')).length, 1)
  assert.equal(await second.release(), 'released')
})

test('a waiter whose lease ended queues again and does not believe that it holds', async (t) => {
  const [a, b, c] = [driverOf(t, server.url), driverOf(t, server.url), driverOf(t, server.url)]
  const name = 'lease of a waiter'
  const holder = await a.acquire(claim(name, { ttl: 20_000 }), once())
  const wait = waiting()
  const waits = b.acquire(claim(name, { ttl: 3_000 }), wait)
  await until(async () => (await placesOf(server, name)).length === 2)
  const third = c.acquire(claim(name, { ttl: 20_000 }), waiting())
  await until(async () => (await placesOf(server, name)).length === 3)
  const lease = (await placesOf(server, name))[1]?.lease
  await server.ask('/v3/lease/revoke', { ID: lease })
  // Found by the next beat: it is queued again, behind the other.
  await until(async () => (await placesOf(server, name)).length === 3, { within: 20_000 })
  await holder?.release()
  const next = await Promise.race([waits.then(() => 'b'), third.then(() => 'c')])
  assert.equal(next, 'c')
  await (await third)?.release()
  assert.equal(await (await waits)?.release(), 'released')
})

test('a lease that was revoked is a definite loss at the next renewal, for all that were kept by it', async (t) => {
  const driver = driverOf(t, server.url)
  const [one, two] = [await driver.acquire(claim('k1'), once()), await driver.acquire(claim('k2'), once())]
  await server.ask('/v3/lease/revoke', { ID: (await placesOf(server, 'k1'))[0]?.lease })
  assert.equal(await one?.renew(1_000, never), undefined)
  assert.equal(await two?.renew(1_000, never), undefined)
  assert.equal(await one?.release(), 'lost')
  const again = await driver.acquire(claim('k1'), waiting())
  assert.ok(again && one && again.token > one.token)
  await again.release()
})

test('a deleted queue entry is lost although its lease is alive, and its neighbours are not', async (t) => {
  const driver = driverOf(t, server.url)
  const [one, two] = [claim('deleted'), claim('kept')]
  const [gone, kept] = [await driver.acquire(one, once()), await driver.acquire(two, once())]
  await server.ask('/v3/kv/deleterange', { key: placeKey('deleted', one.attempt) })
  await until(async () => (await gone?.renew(30_000, never)) === undefined)
  assert.ok((await kept?.renew(30_000, never)) !== undefined)
  await kept?.release()
})

test('a watch that breaks is recreated, and one that hangs is replaced at the next heartbeat', async (t) => {
  for (const how of ['reset', 'silence'] as const) {
    const name = `watch ${how}`
    const holderDriver = driverOf(t, server.url)
    const { driver, cable } = await cabled(t, server)
    const holder = await holderDriver.acquire(claim(name, { ttl: 10_000 }), once())
    const waits = driver.acquire(claim(name, { ttl: 1_500 }), waiting())
    await until(async () => (await placesOf(server, name)).length === 2)
    await until(async () => (await watchers()) > 0)
    if (how === 'reset') cable.reset()
    else cable.down.hold((bytes) => /"type":\s*"DELETE"/.test(bytes.toString()))
    await holder?.release()
    const grant = await waits
    cable.down.pass()
    assert.equal(await grant?.release(), 'released')
  }
})

test('a queue whose history was compacted during a watch is read again', async (t) => {
  const name = 'compacted'
  const holderDriver = driverOf(t, server.url)
  const { driver, cable } = await cabled(t, server)
  await (await driver.acquire(claim('warm', { ttl: 30_000 }), once()))?.release()
  const holder = await holderDriver.acquire(claim(name, { ttl: 10_000 }), once())
  // The watch is on its way while the holder leaves and its leaving is compacted.
  cable.up.hold(said('/v3/watch'))
  const waits = driver.acquire(claim(name, { ttl: 30_000 }), waiting())
  await cable.up.holding()
  await holder?.release()
  for (let i = 0; i < 3; i++) await put(server, 'other', String(i))
  const { header } = (await server.ask('/v3/kv/range', { key: 'AA==' })) as { header: { revision: string } }
  await server.ask('/v3/kv/compaction', { revision: header.revision, physical: true })
  cable.up.pass()
  const grant = await waits
  assert.equal(await grant?.release(), 'released')
})

test('a holder that is cut off no longer blocks others when its lease ends, and reports its loss before', async (t) => {
  const { driver, cable } = await cabled(t, server)
  const other = driverOf(t, server.url)
  const grant = await driver.acquire(claim('cut off', { ttl: 2_000 }), once())
  assert.ok(grant)
  const waits = other.acquire(claim('cut off'), waiting())
  cable.blackHole()
  const next = await waits
  assert.ok(performance.now() > grant.validUntil, 'the next holds before the first knows it does not')
  assert.ok(next && next.token > grant.token)
  cable.heal()
  // Until a connection is there again it cannot tell.
  await until(async () => (await grant.renew(2_000, never).catch(() => 0)) === undefined)
  assert.equal(await next.release(), 'released')
})

test('H50: if the cluster has a longer minimum ttl, the queue entry is kept for longer than claimed, never shorter', async (t) => {
  await using slow = await startEtcd({ args: ['--heartbeat-interval', '500', '--election-timeout', '5000'] })
  const driver = driverOf(t, slow.url)
  const grant = await driver.acquire(claim('least', { ttl: 3_000 }), once())
  const [place] = await placesOf(slow, 'least')
  const { grantedTTL } = await slow.ask('/v3/lease/timetolive', { ID: place?.lease })
  assert.ok(Number(grantedTTL) >= 7, `granted ${grantedTTL} s`)
  assert.ok(grant && grant.validUntil < performance.now() + 3_000)
  assert.equal(await grant.release(), 'released')
})

test('a cell with an expiry does not disappear with the lease of an unanswered write', async (t) => {
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
    cable.down.hold(said('response_put'))
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
    // That of the second call, under which nothing was written.
    const revoked = paths.filter((path) => path === '/v3/lease/revoke').length
    assert.equal(revoked, how === 'sent again' ? 0 : 1)
  }
})

test('a lock taken by force is not taken from the next one, too, when the answer was lost', async (t) => {
  const { driver, cable } = await cabled(t, server)
  await driver.inspect('by force')
  const holder = await driverOf(t, server.url).acquire(claim('by force'), once())
  const waits = driverOf(t, server.url).acquire(claim('by force'), waiting())
  await until(async () => (await placesOf(server, 'by force')).length === 2)
  cable.down.hold(said('response_delete_range'))
  const forced = driver.forceRelease?.('by force')
  await cable.down.holding()
  const next = await waits
  assert.ok(holder && next && next.token > holder.token)
  cable.reset()
  cable.down.pass()
  assert.equal(await forced, 1)
  assert.equal((await driver.inspect('by force')).holders[0]?.token, next.token)
  assert.equal(await next.release(), 'released')
})

test('a holder whose lease is in its last second does not pass for dead', async (t) => {
  const driver = driverOf(t, server.url)
  let left: number | undefined
  // Its second may be over before it was looked at.
  await until(async () => {
    const { ID } = await server.ask('/v3/lease/grant', { TTL: '1' })
    await server.ask('/v3/kv/put', { key: placeKey('last second', 'theirs'), value: '', lease: ID })
    left = (await driver.inspect('last second')).holders[0]?.expiresIn
    const { TTL = '0' } = await server.ask('/v3/lease/timetolive', { ID })
    return left !== undefined && TTL === '0'
  })
  assert.ok(left !== undefined && left > 0 && left <= 1_000, `${left} ms are left`)
})

test('with a lease for each lock, a release ends the lease, too', async (t) => {
  const driver = driverOf(t, server.url, { lease: 'lock' })
  const lives = async (id: string | undefined) => {
    const { TTL } = await server.ask('/v3/lease/timetolive', { ID: id })
    return TTL !== undefined && Number(TTL) > 0
  }
  const [one, two] = [await driver.acquire(claim('l1'), once()), await driver.acquire(claim('l2'), waiting())]
  const ids = [...(await placesOf(server, 'l1')), ...(await placesOf(server, 'l2'))].map(({ lease }) => lease)
  assert.equal(new Set(ids).size, 2)
  for (const id of ids) assert.equal(await lives(id), true)
  assert.equal(await driver.acquire(claim('l1'), once()), undefined)
  await one?.release()
  await two?.release()
  for (const id of ids) await until(async () => !(await lives(id)))
})

test('a client whose wall clock jumps holds on, and is served when it is its turn', async (t) => {
  const module = new URL('../drivers/etcd/support/in-child.js', import.meta.url).href
  await survivesClockJumps(t, locksOf(t, server.url).locks as Locks, { module, args: [[server.url]] })
})

test('closing releases everything at once: queue entries, waiters and leases', async (t) => {
  const driver = driverOf(t, server.url)
  await driver.acquire(claim('closing'), once())
  const wait = waiting()
  const waits = driver.acquire(claim('closing'), wait)
  await until(async () => (await placesOf(server, 'closing')).length === 2)
  wait.end()
  await driver.close()
  assert.deepEqual(await placesOf(server, 'closing'), [])
  assert.equal(await waits, undefined)
})

after(leakCheck)
