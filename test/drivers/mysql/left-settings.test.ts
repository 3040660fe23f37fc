// The application leaves settings of its own on the connections of the pool that the locks share: the time fixed, answers cut short,
// statements for many rows refused.
import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { createLocks } from 'holdfast'
import { inTransaction, mysql } from 'holdfast/mysql'
import { createPool } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import { leave, locksOn, size } from './support/shared-pool.js'

const times = [
  'SET timestamp = 100000',
  'SET timestamp = UNIX_TIMESTAMP() - 3600',
  'SET timestamp = UNIX_TIMESTAMP() + 3600',
]
/** Each COMMIT or ROLLBACK begins another transaction, or ends the connection. */
const completions = ['SET completion_type = 1', 'SET completion_type = 2']
/** Each character of a literal takes two bytes. */
const wide = 'SET collation_connection = ucs2_bin'
const others = ['SET sql_select_limit = 1', 'SET sql_select_limit = 0', 'SET sql_safe_updates = 1']
/** How quotes, empty texts and assignments are read. */
const modes: Readonly<Record<Flavour, string>> = {
  mariadb: `SET sql_mode = 'ORACLE,NO_BACKSLASH_ESCAPES,EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT'`,
  mysql: `SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION'`,
}
/** The server understands no statement with a parenthesis or a comma. */
const armenian = 'SET NAMES armscii8'

for (const flavour of ['mariadb', 'mysql'] satisfies Flavour[]) {
  describe(flavour, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
    })
    after(() => server.stop())

    const start = (t: TestContext, strategy: 'row' | 'session') => {
      const pool = createPool({ uri: server.url, connectionLimit: size })
      return { pool, locks: locksOn(t, pool, strategy, () => pool.end()) }
    }

    for (const strategy of ['row', 'session'] as const) {
      for (const statement of [
        ...times,
        'SET sql_select_limit = 0',
        wide,
        ...completions,
        modes[flavour],
        armenian,
      ]) {
        it(`${strategy}: connections left after ${statement} hold what they say and take nothing from others`, async (t) => {
          const [a, b] = [start(t, strategy), start(t, strategy)]
          const name = `${strategy} ${statement}`
          await leave(a.pool, statement)
          const lease = await a.locks.mutex(name).acquire()
          assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
          await lease.extend()
          assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
          assert.equal((await a.locks.inspect(name)).holders[0]?.token, lease.token)
          assert.equal((await b.locks.inspect(name)).holders[0]?.token, lease.token)
          const next = b.locks.mutex(name).acquire()
          await until(async () => (await a.locks.inspect(name)).waiters.length === 1)
          assert.equal(await lease.release(), 'released')
          const second = await next
          assert.ok(second.token > lease.token)
          assert.equal(await a.locks.mutex(name).tryAcquire(), undefined)
          const third = a.locks.mutex(name).acquire()
          await until(async () => (await b.locks.inspect(name)).waiters.length === 1)
          assert.equal(await second.release(), 'released')
          assert.ok((await third).token > second.token)
          assert.equal(await (await third).release(), 'released')
        })
      }
      for (const statement of others) {
        it(`${strategy}: connections left after ${statement} renew and list every lock`, async (t) => {
          const [a, b] = [start(t, strategy), start(t, strategy)]
          const name = `${strategy} ${statement} list`
          await leave(a.pool, statement)
          for (const locks of [a.locks, b.locks]) {
            const leases = await Promise.all([1, 2, 3].map((n) => locks.mutex(`${name} ${n}`).acquire()))
            for (const one of [a.locks, b.locks]) assert.equal((await one.list(name)).length, 3)
            await Promise.all(leases.map((one) => one.extend()))
            for (const one of leases) assert.equal(await one.release(), 'released')
          }
        })
      }
    }

    for (const statement of [...times, modes[flavour], 'SET sql_safe_updates = 1']) {
      it(`readers, several locks, cells and transactions work after ${statement}`, async (t) => {
        const [a, b] = [start(t, 'row'), start(t, 'row')]
        const name = `readers ${statement}`
        await leave(a.pool, statement)
        for (const [mine, other] of [
          [a.locks, b.locks],
          [b.locks, a.locks],
        ] as const) {
          const reader = await mine.readWrite(name).read.acquire()
          assert.equal(await other.readWrite(name).write.tryAcquire(), undefined)
          const beside = await other.readWrite(name).read.acquire()
          await Promise.all([reader.extend(), beside.extend()])
          assert.equal((await other.inspect(name)).holders.length, 2)
          assert.equal((await mine.inspect(name)).holders.length, 2)
          assert.equal(await reader.release(), 'released')
          assert.equal(await other.readWrite(name).write.tryAcquire(), undefined)
          assert.equal(await beside.release(), 'released')
          const both = await mine.all([mine.mutex(`${name} 1`), mine.mutex(`${name} 2`)]).acquire()
          for (const n of [1, 2]) assert.equal(await other.mutex(`${name} ${n}`).tryAcquire(), undefined)
          await both.release()
          const next = mine.all([mine.mutex(`${name} 1`), mine.mutex(`${name} new`)])
          const rival = await other.mutex(`${name} 1`).acquire()
          assert.equal(await next.tryAcquire(), undefined)
          assert.equal(await rival.release(), 'released')
          await (await next.acquire()).release()
        }
        assert.equal(await a.locks.once(name, () => 1), 1)
        assert.equal(await b.locks.once(name, () => 2), 1)
        let last = 0
        for (const { pool } of [a, b, a]) {
          const connection = await pool.getConnection()
          await connection.beginTransaction()
          const { token } = await inTransaction(connection, `${name} transaction`, { pool })
          await connection.commit()
          connection.release()
          assert.ok(token > last)
          last = token
        }
      })
    }

    it(`tables are created over connections left after ${modes[flavour]}`, async (t) => {
      const pool = createPool({ uri: server.url, connectionLimit: size })
      const locks = createLocks(mysql({ pool, prefix: 'left_' }))
      t.after(async () => {
        await locks.close()
        await pool.end()
      })
      await leave(pool, modes[flavour])
      await locks.mutex('first').run(() => undefined)
      assert.equal(await locks.once('first', () => 1), 1)
    })

    for (const strategy of ['row', 'session'] as const) {
      it(`${strategy}: a waiter whose ticket the application has chosen (SET insert_id) takes nobody's`, async (t) => {
        const [a, b] = [start(t, strategy), start(t, strategy)]
        const names = [`${strategy} first`, `${strategy} second`] as const
        const held = await Promise.all(names.map((name) => a.locks.mutex(name).acquire()))
        const first = b.locks.mutex(names[0]).acquire()
        await until(async () => (await a.locks.inspect(names[0])).waiters.length === 1)
        const [{ ticket } = { ticket: 0 }] = await server.query(
          `SELECT id AS ticket FROM holdfast_waiters WHERE name = '${names[0]}'`,
        )
        const c = start(t, strategy)
        await leave(c.pool, `SET insert_id = ${ticket}`)
        const second = c.locks.mutex(names[1]).acquire()
        await until(async () => (await a.locks.inspect(names[1])).waiters.length === 1)
        assert.equal((await a.locks.inspect(names[0])).waiters.length, 1)
        for (const lease of held) assert.equal(await lease.release(), 'released')
        for (const lease of await Promise.all([first, second]))
          assert.equal(await lease.release(), 'released')
      })
    }
  })
}

after(leakCheck)
