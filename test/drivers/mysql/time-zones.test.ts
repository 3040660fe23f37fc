// The session's time zone jumps, as daylight saving time begins or ends: while a statement runs, or between the real time and one that an
// application has fixed.
// Second tier because it runs on both servers with clocks that move; left-settings.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { mysql } from 'holdfast/mysql'
import { createConnection, createPool } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'

const hour = 3_600
/** Long enough that nothing is renewed by itself, and no statement given up. */
const ttl = 600_000
const commandTimeout = 60_000

for (const flavour of ['mariadb', 'mysql'] satisfies Flavour[]) {
  describe(flavour, () => {
    let server: MysqlServer
    let zones = 0
    before(async () => {
      server = await startMysql({ flavour })
    })
    after(() => server.stop())

    /** A time zone that is `from` seconds ahead of UTC until `at`, in seconds since 1970, and then `to`. @returns its name */
    const makeZone = async (at: number, from: number, to: number): Promise<string> => {
      const id = 900 + ++zones
      const name = `holdfast/${id}`
      for (const row of [
        `time_zone values (${id}, 'N')`,
        `time_zone_name values ('${name}', ${id})`,
        `time_zone_transition_type values (${id}, 0, ${from}, 0, 'A'), (${id}, 1, ${to}, 0, 'B')`,
        `time_zone_transition values (${id}, -2000000000, 0), (${id}, ${at}, 1)`,
      ])
        await server.query(`insert into mysql.${row}`)
      return name
    }
    const present = async () => Number((await server.query('select unix_timestamp() as t'))[0]?.['t'])

    /** @param left statements run on the only connection of the pool */
    const start = async (t: TestContext, ...left: string[]): Promise<Locks> => {
      const pool = createPool({ uri: server.url, connectionLimit: 1 })
      const locks = createLocks(mysql({ pool, commandTimeout }), { ttl })
      t.after(async () => {
        await locks.close()
        await pool.end()
      })
      const connection = await pool.getConnection()
      for (const statement of left) await connection.query(statement)
      connection.release()
      return locks as unknown as Locks
    }

    for (const [from, to] of [
      [0, hour],
      [hour, 0],
    ] as const) {
      it(`a statement that runs as the zone goes from ${from} to ${to} s promises a ttl and no more`, async (t) => {
        const jump = (await present()) + 3
        const zone = await makeZone(jump, from, to)
        const name = `jump ${from} ${to}`
        const [a, b] = [await start(t, `SET time_zone = '${zone}'`), await start(t)]
        const lease = await a.mutex(name).acquire()
        const blocker = await createConnection({ uri: server.url })
        t.after(() => blocker.destroy())
        await blocker.beginTransaction()
        await blocker.query('select * from holdfast_locks where name = ? for update', [name])
        const extended = lease.extend()
        await until(async () => {
          const running = await server.query(
            `select 1 from information_schema.processlist where info like 'UPDATE%holdfast_locks%'`,
          )
          return running.length > 0
        })
        await until(async () => (await present()) > jump)
        await blocker.commit()
        await extended
        const [holder] = (await b.inspect(name)).holders
        assert.equal(holder?.token, lease.token)
        assert.ok(holder.expiresIn < 2 * ttl, `${holder.expiresIn} ms`)
        assert.equal(await b.mutex(name).tryAcquire(), undefined)
        assert.equal(await lease.release(), 'released')
      })

      for (const [when, at, fixed] of [
        ['past', 1_600_000_000, '100000'],
        ['first of two equal hours', 1_600_000_000, '1599998200'],
        ['second of two equal hours', 1_600_000_000, '1600001800'],
        ['future', undefined, 'UNIX_TIMESTAMP() + 7200'],
      ] as const) {
        it(`a time fixed in the ${when}, in a zone that goes from ${from} to ${to} s meanwhile, lets no second holder in`, async (t) => {
          const zone = await makeZone(at ?? (await present()) + hour, from, to)
          const left = [`SET time_zone = '${zone}'`, `SET timestamp = ${fixed}`]
          const [a, b] = [await start(t, ...left), await start(t)]
          const name = `fixed ${when} ${from} ${to}`
          for (const [mine, other] of [
            [a, b],
            [b, a],
          ] as const) {
            const lease = await mine.mutex(name).acquire()
            assert.equal(await other.mutex(name).tryAcquire(), undefined)
            await lease.extend()
            assert.equal(await other.mutex(name).tryAcquire(), undefined)
            const [holder] = (await b.inspect(name)).holders
            assert.equal(holder?.token, lease.token)
            // Where a time in the future is fixed, it lasts from there.
            if (when !== 'future') assert.ok(holder.expiresIn < 2 * ttl, `${holder.expiresIn} ms`)
            const next = other.mutex(name).acquire()
            await until(async () => (await b.inspect(name)).waiters.length === 1)
            await until(async () => (await a.inspect(name)).waiters.length === 1)
            assert.equal(await lease.release(), 'released')
            const second = await next
            assert.ok(second.token > lease.token)
            assert.equal(await second.release(), 'released')
          }
        })
      }
    }
  })
}

after(leakCheck)
