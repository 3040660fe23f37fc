// What the fault lab found (docs/lab-faults.md), each by itself on a real server.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createPool } from 'mariadb'
import { createLocks } from '../../src/create-locks.js'
import { mysql } from '../../src/drivers/mysql/index.js'
import { peer } from '../drivers/mysql/support/peer.js'
import { waitsInVain } from '../drivers/support/in-vain.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { type MysqlServer, startMysql } from '../support/servers/mysql.js'
import { until } from '../support/until.js'

describe('found by the lab', { concurrency: false }, () => {
  let server: MysqlServer
  before(async () => {
    server = await startMysql()
  })
  after(() => server.stop())

  const kills = async () => Number((await server.query(`show global status like 'Com_kill'`))[0]?.['Value'])

  it('a connection of mariadb that does not answer is closed without a KILL, whose number may be another’s, and its place is free', async (t) => {
    const cable = await startProxy({ port: server.port })
    const pool = createPool({
      ...{ host: '127.0.0.1', port: cable.port, user: 'root', database: 'holdfast', connectionLimit: 2 },
      ...{
        connectTimeout: 500,
        acquireTimeout: 500,
        initializationTimeout: 500,
        allowPublicKeyRetrieval: true,
      },
    })
    const locks = createLocks(mysql({ pool, commandTimeout: 200 }))
    t.after(async () => {
      await locks.close()
      await pool.end()
      await cable.stop()
    })
    await locks.mutex('silent').run(() => undefined)
    const before = await kills()
    // The server forgets who it was: a KILL would be refused, and nobody could catch that.
    cable.down.drop()
    await waitsInVain(locks, locks.mutex('silent'), /no answer within 200 ms/)
    await until(() => pool.activeConnections() === 0)
    cable.heal()
    await locks.mutex('silent').run(() => undefined)
    assert.equal(await kills(), before)
  })

  it('readers that try at the same moment all get in, however often the row changes under them', async (t) => {
    const peers = Array.from({ length: 12 }, () => peer(t, server.port, { size: 2 }))
    for (const locks of peers) await locks.readWrite('shelf').read.run(() => undefined)
    for (let round = 0; round < 5; round++) {
      // A line that was there a moment ago makes everybody look before it takes.
      await server.query(
        `update holdfast_locks set line_until = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + 3000000`,
      )
      const leases = await Promise.all(peers.map((locks) => locks.readWrite('shelf').read.tryAcquire()))
      assert.equal(leases.filter((lease) => lease === undefined).length, 0, `round ${round}`)
      await Promise.all(leases.map((lease) => lease?.release()))
    }
  })

  it('a waiter is told to wait once it is queued, not before: a later request may not overtake it', async (t) => {
    const cable = await startProxy({ port: server.port })
    const [holder, waiter] = [peer(t, server.port), peer(t, cable.port)]
    t.after(() => cable.stop())
    const lease = await holder.mutex('line').acquire()
    await waiter.mutex('other').run(() => undefined)
    let told = 0
    waiter.on('waiting', () => void told++)
    cable.up.hold('INSERT INTO `holdfast`.`holdfast_waiters`')
    const next = waiter.mutex('line').acquire()
    await cable.up.holding()
    assert.equal(told, 0)
    cable.up.pass()
    await until(() => told > 0)
    assert.equal((await holder.inspect('line')).waiters.length, 1)
    await lease.release()
    await (await next).release()
  })

  it('a release finishes once the waiter’s queue entry is gone: a try after that does not find a waiter', async (t) => {
    const cable = await startProxy({ port: server.port })
    const [holder, waiter] = [peer(t, server.port), peer(t, cable.port, { commandTimeout: 60_000 })]
    t.after(() => cable.stop())
    const lease = await holder.mutex('left').acquire()
    cable.up.hold('DELETE FROM `holdfast`.`holdfast_waiters`')
    const next = waiter.mutex('left').acquire({ ttl: 60_000 })
    await until(async () => (await holder.inspect('left')).waiters.length === 1)
    await lease.release()
    const second = await next
    await cable.up.holding()
    const tried = second.release().then(() => holder.mutex('left').tryAcquire())
    await until(async () => (await holder.inspect('left')).holders.length === 0)
    cable.up.pass()
    const third = await tried
    assert.ok(third !== undefined, 'it is free')
    await third.release()
  })

  it('a try for permits that leaves enough for all waiters is not refused, and they are not passed', async (t) => {
    const [a, b] = [peer(t, server.port), peer(t, server.port)]
    const seats = (locks: typeof a) => locks.semaphore('seats', { permits: 4 })
    const first = await seats(a).acquire()
    const now = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`
    // Waiters that are about to find out that there is room; they are fresh for as long as the test lasts.
    const stands = async (attempt: string, kind: string, take: number) => {
      await server.query(
        `insert into holdfast_waiters (name, attempt, kind, take, permits, since, seen) values ('seats', '${attempt}', '${kind}', ${take}, 4, ${now}, ${now} + 2000000)`,
      )
      await server.query(`update holdfast_locks set line_until = ${now} + 60000000 where name = 'seats'`)
    }
    await stands('stopped', 'p', 1)
    const second = await seats(b).tryAcquire()
    assert.ok(second !== undefined, 'one is taken, one waited for, two are left')
    assert.equal(await seats(b).tryAcquire({ permits: 2 }), undefined, 'one is left')
    const third = await seats(b).tryAcquire()
    assert.ok(third !== undefined, 'those who wait are seen all the same')
    assert.equal(await seats(b).tryAcquire(), undefined, 'the last one is waited for')
    await third.release()
    await stands('stopped writer', 'x', 1)
    assert.equal(await seats(b).tryAcquire(), undefined, 'nobody passes a waiter that needs all')
    for (const lease of [first, second]) await lease.release()
    assert.equal(await seats(b).tryAcquire(), undefined, 'not if it is free, either')
  })

  it('a reader does not wait behind a queued reader that says nothing', async (t) => {
    const [a, b] = [peer(t, server.port), peer(t, server.port)]
    const reading = await a.readWrite('page').read.acquire()
    const now = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`
    const stands = (kind: string) =>
      server.query(
        `insert into holdfast_waiters (name, attempt, kind, since, seen) values ('page', 'stopped ${kind}', '${kind}', ${now}, ${now})`,
      )
    await stands('s')
    await server.query(`update holdfast_locks set line_until = ${now} + 3000000 where name = 'page'`)
    const second = await b.readWrite('page').read.tryAcquire()
    assert.ok(second !== undefined)
    await second.release()
    // But behind a writer it does.
    await stands('x')
    await server.query(`update holdfast_locks set line_until = ${now} + 3000000 where name = 'page'`)
    assert.equal(await b.readWrite('page').read.tryAcquire(), undefined)
    await reading.release()
  })
})

after(leakCheck)
