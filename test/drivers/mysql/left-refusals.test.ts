// The application leaves connections of the pool that the locks share in a state in which the server refuses all other statements, or all writes.
// Second tier because it runs on both servers with both clients; left-settings.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { inTransaction, type MysqlOptions, type MysqlPool, mysql } from 'holdfast/mysql'
import * as mariadb from 'mariadb'
import { createPool as createMysql2 } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'

type AppConnection = Parameters<typeof inTransaction>[0] & {
  query(sql: string): Promise<unknown>
  release(): unknown
}
interface AppPool extends MysqlPool {
  getConnection(): Promise<AppConnection>
  end(): Promise<void>
}

const size = 2
const place = { host: '127.0.0.1', user: 'root', database: 'holdfast', connectionLimit: size }
const pools: Readonly<Record<string, (port: number) => AppPool>> = {
  mysql2: (port) => createMysql2({ ...place, port }),
  // It ends transactions by itself when a connection is released, unless it is told not to.
  mariadb: (port) =>
    mariadb.createPool({
      ...{ ...place, port, allowPublicKeyRetrieval: true, noControlAfterUse: true },
    }) as unknown as AppPool,
}

let transactions = 0
/** How a connection is left: by these statements, of which each connection gets its own. */
const states: Readonly<Record<string, () => readonly string[]>> = {
  'tables locked': () => ['LOCK TABLES tenant.things READ'],
  'its session read-only': () => ['SET SESSION TRANSACTION READ ONLY'],
  'its next transaction read-only': () => ['SET TRANSACTION READ ONLY'],
  'a read-only transaction open': () => ['START TRANSACTION READ ONLY'],
  'a limit of joined rows': () => ['SET sql_big_selects = 0, max_join_size = 1'],
  'an XA transaction ended': () => {
    const id = `x${transactions++}`
    return [`XA START '${id}'`, `XA END '${id}'`]
  },
}

async function leave(pool: AppPool, state: () => readonly string[]): Promise<void> {
  const all = await Promise.all(Array.from({ length: size }, () => pool.getConnection()))
  for (const connection of all) {
    // XA: nobody has used it since the last time, and it is still left so.
    const still = (error: { errno?: number }) => assert.equal(error.errno, 1399)
    for (const statement of state()) await connection.query(statement).catch(still)
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

      for (const [what, state] of Object.entries(states)) {
        // That client reports an open transaction with every answer, so the connection is refused before the server does: see shared-pool.test.ts.
        const reported = client === 'mariadb' && /transaction (open|ended)/.test(what)
        if (!reported)
          it(`${client}, row: whatever is next works although every connection was left with ${what}`, async (t) => {
            const [a, b] = [start(t), start(t)]
            const name = `${client} ${what}`
            await (await b.locks.mutex(name).acquire()).release()
            const left = () => leave(a.pool, state)
            await left()
            const lease = await a.locks.mutex(name).acquire()
            assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
            await left()
            await lease.extend()
            await left()
            assert.equal((await a.locks.list(name)).length, 1)
            const next = b.locks.mutex(name).acquire()
            await until(async () => (await b.locks.inspect(name)).waiters.length === 1)
            await left()
            assert.equal(await lease.release(), 'released')
            const second = await next
            assert.ok(second.token > lease.token)
            await left()
            const third = a.locks.mutex(name).acquire()
            await until(async () => (await b.locks.inspect(name)).waiters.length === 1)
            await left()
            assert.equal(await second.release(), 'released')
            assert.ok((await third).token > second.token)
            await left()
            assert.equal(await (await third).release(), 'released')
            await left()
            assert.equal(await a.locks.once(name, () => 1), 1)
          })

        it(`${client}, session: a connection that was left with ${what} holds what it says`, async (t) => {
          const [a, b] = [start(t, 'session'), start(t, 'session')]
          const name = `${client} ${what}, session`
          await leave(a.pool, state)
          const lease = await a.locks.mutex(name).acquire()
          assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
          assert.equal((await b.locks.inspect(name)).holders[0]?.token, lease.token)
          assert.equal(await lease.release(), 'released')
          assert.ok((await b.locks.mutex(name).acquire()).token > lease.token)
        })
      }

      it(`${client}: a lock is acquired and released although every connection was left with all tables locked`, async (t) => {
        const { pool, locks } = start(t)
        const left = () => leave(pool, () => ['FLUSH TABLES WITH READ LOCK'])
        await (await locks.mutex(`${client} all tables`).acquire()).release()
        await left()
        const lease = await locks.mutex(`${client} all tables`).acquire()
        await left()
        assert.equal(await lease.release(), 'released')
      })

      for (const [what, statement] of [
        ['tables locked', 'LOCK TABLES tenant.things READ'],
        ['a transaction open', 'START TRANSACTION'],
        ['autocommit off', 'SET autocommit = 0'],
      ] as const) {
        it(`${client}: the row of a transaction is created although the other connection was left with ${what}`, async (t) => {
          const { pool } = start(t)
          await leave(pool, () => [statement])
          const connection = await pool.getConnection()
          await connection.query('UNLOCK TABLES')
          await connection.query('SET autocommit = 1')
          await connection.query('START TRANSACTION')
          const { token } = await inTransaction(connection, `${client} transaction, ${what}`, { pool })
          assert.ok(token > 0)
          await connection.query('COMMIT')
          connection.release()
        })
      }

      it(`${client}: the error names the cause and the remedy where all connections are read-only`, async (t) => {
        await server.query('SET GLOBAL TRANSACTION READ ONLY')
        t.after(() => server.query('SET GLOBAL TRANSACTION READ WRITE'))
        const { locks } = start(t)
        await assert.rejects(locks.mutex(`${client} global`).tryAcquire(), {
          code: 'BACKEND',
          message: /\(1792\).*left this on connections of the pool, or it is set for all.*READ WRITE/,
        })
      })
    }
  })
}

after(leakCheck)
