// The pool is the application's own, and the application leaves its connections in whatever state it needed: another database, a
// transaction it has not ended, autocommit off.
import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { inTransaction, type MysqlOptions, type MysqlPool, mysql } from 'holdfast/mysql'
import * as mariadb from 'mariadb'
import { createPool as createMysql2 } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'

interface AppConnection {
  query(sql: string): Promise<unknown>
  release(): unknown
}
interface AppPool extends MysqlPool {
  getConnection(): Promise<AppConnection & Parameters<typeof inTransaction>[0]>
  end(): Promise<void>
}

const size = 2
const pools: Readonly<Record<string, (port: number, connectionLimit?: number) => AppPool>> = {
  mysql2: (port, connectionLimit = size) =>
    createMysql2({
      ...{ host: '127.0.0.1', user: 'root', database: 'holdfast' },
      port,
      connectionLimit,
    }),
  // It ends transactions by itself when a connection is released, unless it is told not to.
  mariadb: (port, connectionLimit = size) =>
    mariadb.createPool({
      ...{ host: '127.0.0.1', user: 'root', database: 'holdfast', port, connectionLimit },
      ...{ allowPublicKeyRetrieval: true, noControlAfterUse: true },
    }) as unknown as AppPool,
}
const strategies = ['row', 'session'] as const

/** Every connection of the pool is left like this. */
async function leave(pool: AppPool, ...statements: string[]): Promise<void> {
  await leaveAll(pool, size, statements)
}

async function leaveAll(pool: AppPool, count: number, statements: readonly string[]): Promise<void> {
  const all = await Promise.all(Array.from({ length: count }, () => pool.getConnection()))
  for (const connection of all) {
    for (const statement of statements) await connection.query(statement)
    connection.release()
  }
}

for (const flavour of ['mariadb', 'mysql'] satisfies Flavour[]) {
  describe(flavour, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
      await server.query('create database tenant')
      await server.query('create table tenant.things (id int)')
    })
    after(() => server.stop())

    for (const [client, open] of Object.entries(pools)) {
      const start = (t: TestContext, strategy: MysqlOptions['strategy'] = 'row') => {
        const pool = open(server.port)
        const locks = createLocks(mysql({ pool, strategy })) as unknown as Locks
        t.after(async () => {
          await locks.close()
          await pool.end()
        })
        return { pool, locks }
      }

      for (const strategy of strategies) {
        it(`${client}, ${strategy}: connections left in another database lock in the one of the pool`, async (t) => {
          const [a, b] = [start(t, strategy), start(t, strategy)]
          const name = `${client} ${strategy} database`
          await leave(a.pool, 'USE tenant')
          const lease = await a.locks.mutex(name).acquire()
          assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
          // That of `session` stays with the driver.
          if (strategy === 'row') await leave(b.pool, 'USE tenant')
          assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
          for (const { locks } of [a, b])
            assert.equal((await locks.inspect(name)).holders[0]?.token, lease.token)
          await lease.extend()
          assert.equal(await lease.release(), 'released')
          const next = await b.locks.mutex(name).acquire()
          assert.ok(next.token > lease.token)
          await next.release()
          assert.deepEqual(await server.query(`show tables in tenant like 'holdfast%'`), [])
        })
      }

      it(`${client}: a lock held by session is one to row, whatever database the connections of row are in`, async (t) => {
        const [holder, other] = [start(t, 'session'), start(t)]
        await leave(other.pool, 'USE tenant')
        const lease = await holder.locks.mutex(`${client} both`).acquire()
        assert.equal(await other.locks.mutex(`${client} both`).tryAcquire(), undefined)
        assert.equal(await lease.release(), 'released')
        await (await other.locks.mutex(`${client} both`).acquire()).release()
      })

      it(`${client}: a transaction that is in another database locks in the one of the pool`, async (t) => {
        const { pool } = start(t)
        const name = `${client} transaction`
        const [first, second] = await Promise.all([pool.getConnection(), open(server.port)])
        t.after(() => second.end())
        await first.query('USE tenant')
        await first.query('START TRANSACTION')
        const { token } = await inTransaction(first, name, { pool })
        const rival = await second.getConnection()
        await rival.query('START TRANSACTION')
        await assert.rejects(inTransaction(rival, name, { pool: second, wait: 1 }), {
          code: 'ACQUIRE_TIMEOUT',
        })
        await first.query('COMMIT')
        assert.ok((await inTransaction(rival, name, { pool: second })).token > token)
        await rival.query('COMMIT')
        first.release()
        rival.release()
      })

      it(`${client}: a wait goes on where more connections were left inside transactions than one statement tries`, async (t) => {
        const pool = open(server.port, 12)
        const locks = createLocks(mysql({ pool }))
        t.after(async () => {
          await locks.close()
          await pool.end()
        })
        await locks.mutex(`${client} many`).run(() => undefined)
        await leaveAll(pool, 12, ['START TRANSACTION'])
        const lease = await locks.mutex(`${client} many`).acquire({ wait: 60_000 })
        assert.equal(await lease.release(), 'released')
      })

      it(`${client}: a transaction left on a connection of the pool is not committed by a first inTransaction`, async (t) => {
        const { pool } = start(t)
        const [first, left] = await Promise.all([pool.getConnection(), pool.getConnection()])
        await left.query('START TRANSACTION')
        await left.query(`INSERT INTO tenant.things VALUES (${client.length})`)
        left.release()
        await first.query('START TRANSACTION')
        // It makes the tables of this prefix, over the other connection.
        await inTransaction(first, `${client} abandoned`, { pool, prefix: `${client}_` })
        await first.query('COMMIT')
        first.release()
        await leave(pool, 'ROLLBACK')
        assert.deepEqual(await server.query('select id from tenant.things'), [])
      })

      // Before any connection of a mariadb pool is free, nothing tells its database.
      if (client === 'mysql2')
        it(`${client}: so does one that has the last connection of a pool that was never asked before`, async (t) => {
          const name = `${client} used up`
          const [pool, second] = [open(server.port), open(server.port)]
          t.after(() => Promise.all([pool.end(), second.end()]))
          const rival = await second.getConnection()
          await rival.query('START TRANSACTION')
          // It makes the tables, which takes a spare connection.
          await inTransaction(rival, `${name} before`, { pool: second })
          await rival.query('COMMIT')
          const all = await Promise.all(Array.from({ length: size }, () => pool.getConnection()))
          const [first] = all as [(typeof all)[0]]
          await first.query('USE tenant')
          await first.query('START TRANSACTION')
          const { token } = await inTransaction(first, name, { pool })
          await rival.query('START TRANSACTION')
          await assert.rejects(inTransaction(rival, name, { pool: second, wait: 1 }), {
            code: 'ACQUIRE_TIMEOUT',
          })
          await first.query('COMMIT')
          assert.ok((await inTransaction(rival, name, { pool: second })).token > token)
          await rival.query('COMMIT')
          for (const connection of [...all, rival]) connection.release()
        })

      for (const [what, ...statements] of [
        ['a transaction open', 'START TRANSACTION', 'insert into tenant.things values (1)'],
        ['autocommit off', 'SET autocommit = 0'],
      ] as const) {
        it(`${client}, row: connections left with ${what} are closed, and whatever is next works`, async (t) => {
          const [a, b] = [start(t), start(t)]
          const name = `${client} ${what}`
          // Long before the pool of the application has ended its transactions.
          const left = () => leave(a.pool, ...statements)
          await left()
          const lease = await a.locks.mutex(name).acquire()
          assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
          await left()
          await lease.extend()
          const next = b.locks.mutex(name).acquire()
          await until(async () => (await b.locks.inspect(name)).waiters.length === 1)
          await left()
          assert.equal(await lease.release(), 'released')
          const second = await next
          assert.ok(second.token > lease.token)
          await left()
          assert.equal(await a.locks.mutex(name).tryAcquire(), undefined)
          assert.equal(await second.release(), 'released')
          await left()
          assert.equal(await a.locks.once(name, () => 1), 1)
        })

        it(`${client}, session: connections left with ${what} hold what they say`, async (t) => {
          const [a, b] = [start(t, 'session'), start(t, 'session')]
          const name = `${client} ${what}, session`
          await leave(a.pool, ...statements)
          const lease = await a.locks.mutex(name).acquire()
          assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
          assert.equal((await b.locks.inspect(name)).holders[0]?.token, lease.token)
          assert.equal(await lease.release(), 'released')
          const next = await b.locks.mutex(name).acquire()
          assert.ok(next.token > lease.token)
          await next.release()
        })
      }
    }
  })
}

after(leakCheck)
