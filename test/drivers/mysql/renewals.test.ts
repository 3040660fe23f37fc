// What one statement does to many rows. Several locks taken at once; and renewals of many holds: their cost, the result of each, and that a blocked row blocks no other.
// Second tier because it runs on both servers at every isolation level; conformance/mysql.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { type Connection, createConnection, createPool } from 'mysql2/promise'
import type { Driver, Grant } from '../../../src/core/driver.js'
import { systemEnv } from '../../../src/core/engine.js'
import { shared } from '../../../src/core/mode.js'
import { mysql } from '../../../src/drivers/mysql/index.js'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { claim, never, waiting } from '../support/asking.js'
import { deadlocks, peer, statements } from './support/peer.js'
import { togetherTests } from './support/together.js'

/** So long that nothing is renewed by itself in the middle of a test. */
const ttl = 600_000

for (const flavour of ['mariadb', 'mysql'] as const) {
  describe(`renewals (${flavour})`, { concurrency: false }, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
    })
    after(() => server.stop())

    /** A driver without the core around it. */
    function driverOf(t: TestContext): Driver {
      const pool = createPool(server.url)
      const driver = mysql({ pool, commandTimeout: 60_000 })(systemEnv())
      t.after(async () => {
        await driver.close()
        await pool.end()
      })
      return driver
    }
    const taken = async (driver: Driver, more: Parameters<typeof claim>): Promise<Grant> => {
      const grant = await driver.acquire(claim(...more), waiting())
      assert.ok(grant)
      return grant
    }

    it('of all locks, readers and permits of a process are one statement', async (t) => {
      const locks = peer(t, server.port)
      const leases = await Promise.all([
        ...Array.from({ length: 40 }, (_, i) => locks.mutex(`many ${i}`).acquire({ ttl })),
        ...Array.from({ length: 3 }, () => locks.readWrite('shelf').read.acquire({ ttl })),
        ...[1, 2].map((permits) => locks.semaphore('places', { permits: 5 }).acquire({ ttl, permits })),
      ])
      const extend = () => Promise.all(leases.map((lease) => lease.extend(2 * ttl)))
      assert.deepEqual(await statements(server, extend), { update_multi: 1 })
      const holders = (await locks.list()).flatMap((standing) => standing.holders)
      assert.equal(holders.length, leases.length)
      for (const { expiresIn } of holders) assert.ok(expiresIn > ttl, `${expiresIn} ms left`)
      for (const lease of leases) assert.equal(await lease.release(), 'released')
      const one = await locks.mutex('alone').acquire({ ttl })
      assert.deepEqual(await statements(server, () => one.extend()), { update: 1 })
      await one.release()
    })

    it('report the fate of each: an operator has taken it, its row is gone, its entry among the readers is gone', async (t) => {
      const driver = driverOf(t)
      const reader = claim('told, shelf', { ttl, mode: shared })
      const grants = await Promise.all([
        ...Array.from({ length: 7 }, (_, i) => taken(driver, [`told ${i}`, { ttl }])),
        taken(driver, ['told, shelf', { ttl, mode: shared }]),
        driver.acquire(reader, waiting()),
      ])
      await driver.forceRelease?.('told 2')
      await server.query(`delete from holdfast_locks where name = 'told 5'`)
      await server.query(
        `update holdfast_locks set sharers = json_remove(sharers, '$."${reader.attempt}"') where name = 'told, shelf'`,
      )
      const told = await Promise.all(grants.map((grant) => grant?.renew(ttl, never)))
      assert.deepEqual(
        told.map((until) => until !== undefined),
        [true, true, false, true, true, false, true, true, false],
      )
    })

    it('go on while a stranger keeps the row of one of them locked, which waits for it', async (t) => {
      const driver = driverOf(t)
      const names = ['kept a', 'kept b', 'kept c', 'kept d']
      const grants = await Promise.all(names.map((name) => taken(driver, [name, { ttl }])))
      const stranger: Connection = await createConnection(server.url)
      t.after(() => stranger.destroy())
      await stranger.query('begin')
      await stranger.query(`select * from holdfast_locks where name = 'kept c' for update`)
      const [a, b, c, d] = grants.map((grant) => grant.renew(ttl, never))
      let free = false
      const last = c?.then(() => free)
      for (const until of await Promise.all([a, b, d])) assert.ok(until !== undefined)
      free = true
      await stranger.query('commit')
      assert.equal(await last, true, 'it was renewed before its row was free')
      assert.notEqual(await c, undefined)
    })

    it('of the same rows by several processes at every isolation level do not deadlock', async (t) => {
      const before = await deadlocks(server)
      const levels = ['read uncommitted', 'read committed', 'repeatable read', 'serializable']
      const leases = levels.map(async (level) => {
        const pool = createPool(server.url)
        pool.pool.on('connection', (connection) =>
          connection.query(`set session transaction isolation level ${level}`),
        )
        const driver = mysql({ pool, commandTimeout: 60_000 })(systemEnv())
        t.after(async () => {
          await driver.close()
          await pool.end()
        })
        const all = Array.from({ length: 12 }, (_, i) =>
          taken(driver, [`book ${i}`, { ttl, mode: shared, fair: false }]),
        )
        return Promise.all(all)
      })
      const all = (await Promise.all(leases)).flat()
      for (let round = 0; round < 10; round++) {
        const told = await Promise.all(all.map((grant) => grant.renew(ttl, never)))
        assert.equal(told.filter((until) => until === undefined).length, 0, `round ${round}`)
      }
      assert.equal(await deadlocks(server), before)
    })

    describe('several locks in one statement', () => togetherTests(() => server))
  })
}

after(leakCheck)
