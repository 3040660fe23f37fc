// Two primaries: a standby that streams asynchronously is promoted while the old primary keeps running. A client is notified of everything that it can know;
// what nobody can know is shown as it is, with what keeps the resource safe then.
// Second tier because two primaries are a topology of their own.
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { createLocks, type Lease, type Locks, StaleTokenError } from 'holdfast'
import { guardedUpdate, pg } from 'holdfast/guard'
import { Pool } from 'pg'
import { driverOn, type Library, type Options } from '../drivers/postgres/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy, type TcpProxy } from '../support/proxy.js'
import { startPostgres } from '../support/servers/postgres.js'
import { until } from '../support/until.js'

const long = 600_000

/** A primary, and a standby that has what was committed until it is cut off. */
async function twoServers(t: TestContext) {
  const primary = await startPostgres()
  t.after(() => primary.stop())
  // The tables are made before, so that the standby has them.
  const first = createLocks(driverOn('pg', primary.port))
  await first.mutex('made').run(() => undefined)
  await first.close()
  const standby = await startPostgres({ standbyOf: primary })
  t.after(() => standby.stop())
  return { primary, standby }
}

function locksOn(t: TestContext, library: Library, port: number, options?: Options) {
  const locks = createLocks(driverOn(library, port, options))
  t.after(() => locks.close())
  const lost: string[] = []
  locks.on('lost', ({ name }) => lost.push(name))
  return { locks, lost }
}

const hold = (locks: Locks, name: string) => locks.mutex(name).acquire({ ttl: long, wait: 20_000 })

describe('a client whose connections are led to the promoted server', () => {
  for (const [library, options] of [
    ['pg', {}],
    ['pg', { listen: false }],
    ['postgres.js', {}],
    ['postgres.js', { listen: false }],
  ] as const) {
    test(`learns at once which holds that server lacks, and keeps the rest (${library} ${JSON.stringify(options)})`, async (t) => {
      const { primary, standby } = await twoServers(t)
      const target = { port: primary.port }
      const cable = await startProxy(target)
      t.after(() => cable.stop())
      const { locks, lost } = locksOn(t, library, cable.port, options)
      const known = await hold(locks, 'known')
      await standby.caughtUp()
      await standby.cutOff()
      const unknown = await hold(locks, 'unknown')
      await standby.promote()
      target.port = standby.port
      cable.reset()
      // No renewal is due for minutes, and the old primary would keep reporting it as held.
      await until(() => lost.length > 0, { what: 'the holder to hear of it' })
      assert.deepEqual(lost, ['unknown'])
      assert.ok(known.isHeld)
      const next = await hold(locks, 'unknown')
      assert.ok(next.token > unknown.token, `${next.token} after ${unknown.token}`)
      assert.equal(await next.release(), 'released')
      assert.equal(await known.release(), 'released')
    })
  }
})

/** Locks taken by more statements at once than one connection carries: the last ones want another. */
async function crowd(locks: Locks, cable: TcpProxy, prefix: string): Promise<Lease[]> {
  const some = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, i) => hold(locks, `${prefix} ${from + i}`))
  cable.down.hold()
  const first = some(0, 8)
  await cable.down.holding()
  const last = some(8, 12)
  await new Promise(setImmediate)
  cable.down.pass()
  return Promise.all([...first, ...last])
}

/**
 * A client with two connections, of which the older one is led to the promoted server; the other one stays at the old primary.
 * @param answered has the one that stays answered anything?
 */
async function halfMoved(t: TestContext, answered: boolean) {
  const { primary, standby } = await twoServers(t)
  const target = { port: primary.port }
  const cable = await startProxy(target)
  t.after(() => cable.stop())
  await standby.caughtUp()
  await standby.cutOff()
  await standby.promote()
  const { locks, lost } = locksOn(t, 'pg', cable.port, { connections: 2 })
  await (await hold(locks, 'first')).release()
  // The second connection is opened for the crowd, and comes when all have been sent over the first.
  for (const lease of await crowd(locks, cable, 'before')) await lease.release()
  await until(() => cable.links.length === 2)
  if (answered) for (const lease of await crowd(locks, cable, 'again')) await lease.release()
  const unknown = await hold(locks, 'unknown')
  target.port = standby.port
  cable.links[0]?.reset()
  await until(() => lost.includes('unknown'), { what: 'the holder to hear of it' })
  assert.equal(unknown.isHeld, false)
  const there = createLocks(driverOn('pg', standby.port))
  t.after(() => there.close())
  /** Does the promoted server know of it? */
  const isKnown = async ({ name, token }: Lease) =>
    (await there.inspect(name)).holders.some((holder) => holder.token === token)
  return { cable, locks, isKnown }
}

describe('a client that has a connection left to the old primary', () => {
  test('gives that up as soon as another one leads to the promoted server', async (t) => {
    const { cable, locks, isKnown } = await halfMoved(t, true)
    for (const lease of await crowd(locks, cable, 'after')) {
      assert.equal(await isKnown(lease), true)
      assert.ok(lease.isHeld)
    }
  })

  test('gives that up when it answers, keeps the newer one, and is told what it was granted there', async (t) => {
    const { cable, locks, isKnown } = await halfMoved(t, false)
    const [stale, newer] = cable.links
    const leases = await crowd(locks, cable, 'after')
    await until(() => stale?.open === false)
    for (const lease of leases) {
      const known = await isKnown(lease)
      await until(() => lease.isHeld === known, { what: `${lease.name} to be as the promoted server says` })
    }
    assert.equal(newer?.open, true)
  })
})

test('two clients, each with its own primary, both hold: nothing notifies them, and a guard refuses the older token', async (t) => {
  const { primary, standby } = await twoServers(t)
  const resource = await startPostgres()
  t.after(() => resource.stop())
  await resource.sql('create table accounts (id int primary key, owner text, fence bigint)')
  await resource.sql('insert into accounts (id) values (1)')
  const pool = new Pool({ connectionString: resource.url })
  pool.on('error', () => undefined)
  t.after(() => pool.end())
  const write = (owner: string, fence: { name: string; token: number }) =>
    guardedUpdate(pg(pool), { table: 'accounts', key: { id: 1 }, set: { owner }, fence })

  const old = locksOn(t, 'pg', primary.port)
  const promoted = locksOn(t, 'pg', standby.port)
  await standby.cutOff()
  const first = await hold(old.locks, 'account')
  await standby.promote()
  const second = await hold(promoted.locks, 'account')
  // Both believe, and each is told by its server that it is right.
  await first.extend()
  await second.extend()
  assert.ok(first.isHeld && second.isHeld)
  assert.deepEqual([...old.lost, ...promoted.lost], [])
  assert.ok(second.token > first.token)

  assert.equal(await write('first', first), true)
  assert.equal(await write('second', second), true)
  await assert.rejects(write('first', first), StaleTokenError)

  // The old primary keeps granting, by a clock that is as good: the guard keeps the older of two holders out, whichever side that is.
  await first.release()
  const third = await hold(old.locks, 'account')
  assert.ok(third.token > second.token)
  assert.equal(await write('third', third), true)
  await assert.rejects(write('second', second), StaleTokenError)
  assert.deepEqual(await resource.sql('select owner, fence::text from accounts'), [
    { owner: 'third', fence: String(third.token) },
  ])
  await third.release()
  await second.release()
})

after(leakCheck)
