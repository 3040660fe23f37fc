// Locks that live in a transaction of the user's own, on both servers and with both clients; and what the same looks like when it
// is done naively (H63, H64, H65).
// Second tier because it repeats for both servers and both clients.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { AcquireTimeoutError, createLocks, DeadlockError } from 'holdfast'
import { inTransaction, type MysqlPool, mysql, tryInTransaction } from 'holdfast/mysql'
import mariadb from 'mariadb'
import mysql2 from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'

interface Connection {
  query(options: { sql: string; rowsAsArray: boolean }): Promise<unknown>
  query(sql: string): Promise<unknown>
  beginTransaction(): Promise<void>
  commit(): Promise<void>
  rollback(): Promise<void>
  release(): unknown
}
interface Pool extends MysqlPool {
  getConnection(): Promise<Connection>
  end(): Promise<void>
}

const place = { host: '127.0.0.1', user: 'root', database: 'holdfast' }
const poolOf = (library: 'mysql2' | 'mariadb', port: number, connectionLimit = 10): Pool =>
  library === 'mysql2'
    ? (mysql2.createPool({ ...place, port, connectionLimit }) as unknown as Pool)
    : (mariadb.createPool({
        ...place,
        port,
        connectionLimit,
        allowPublicKeyRetrieval: true,
      }) as unknown as Pool)

const runs: readonly (readonly [Flavour, 'mysql2' | 'mariadb'])[] = [
  ['mariadb', 'mysql2'],
  ['mysql', 'mariadb'],
]

for (const [flavour, library] of runs) {
  describe(`a lock in a transaction (${flavour}, ${library})`, { concurrency: false }, () => {
    let server: MysqlServer
    let pool: Pool
    before(async () => {
      server = await startMysql({ flavour })
      pool = poolOf(library, server.port)
    })
    after(async () => {
      await pool.end()
      await server.stop()
    })

    /** Begun; rolled back and released in the end. */
    async function begun(t: { after(fn: () => Promise<void>): void }): Promise<Connection> {
      const connection = await pool.getConnection()
      await connection.beginTransaction()
      t.after(async () => {
        await connection.rollback().catch(() => undefined)
        await connection.release()
      })
      return connection
    }

    it('is released by commit, by rollback, and by the end of the connection, with growing tokens', async (t) => {
      const [a, b] = [await begun(t), await begun(t)]
      const first = await inTransaction(a, 'x', { pool })
      assert.equal(await tryInTransaction(b, 'x', { pool }), undefined)
      assert.notEqual(await tryInTransaction(b, 'another', { pool }), undefined)
      await a.commit()
      const second = await tryInTransaction(b, 'x', { pool })
      assert.ok(second !== undefined && second.token > first.token)
      await b.rollback()
      await a.beginTransaction()
      const third = await inTransaction(a, 'x', { pool })
      assert.ok(third.token > second.token)
      const id = String(((await rowsOf(a, 'select connection_id()')) as unknown[][])[0]?.[0])
      await server.query(`kill ${id}`)
      await b.beginTransaction()
      assert.ok((await inTransaction(b, 'x', { pool, wait: 60_000 })).token > third.token)
    })

    it('is handed over by the commit, not before', async (t) => {
      const [a, b] = [await begun(t), await begun(t)]
      await inTransaction(a, 'queue', { pool })
      let had = false
      const next = inTransaction(b, 'queue', { pool, wait: 60_000 }).then(() => {
        had = true
      })
      await until(async () => (await waitingFor(server)) > 0, { what: 'the second to wait', every: 150 })
      assert.equal(had, false)
      await a.commit()
      await next
    })

    it('times out with the transaction alive, and leaves the time-out of the session as it was', async (t) => {
      const [a, b] = [await begun(t), await begun(t)]
      await inTransaction(a, 'held', { pool })
      await b.query('set session innodb_lock_wait_timeout = 37')
      await assert.rejects(inTransaction(b, 'held', { pool, wait: 300 }), AcquireTimeoutError)
      assert.equal(Number((await rowsOf(b, 'select @@innodb_lock_wait_timeout'))[0]?.[0]), 37)
      await inTransaction(b, 'free', { pool })
      await a.rollback()
      await inTransaction(b, 'held', { pool })
    })

    it('needs no second connection of a pool that has none to spare: a pool of one, and ten for thirty requests', async () => {
      const warm = await pool.getConnection()
      await warm.beginTransaction()
      await inTransaction(warm, 'tables are there', { pool })
      await warm.commit()
      await warm.release()
      for (const [size, requests, names] of [
        [1, 3, 3],
        [10, 30, 30],
        [10, 30, 2],
      ] as const) {
        const small = poolOf(library, server.port, size)
        const inside = new Set<string>()
        const tokens = Array.from({ length: requests }, async (_, i) => {
          const name = `of ${size} for ${requests}: ${i % names} of ${names}`
          const connection = await small.getConnection()
          try {
            await connection.beginTransaction()
            const { token } = await inTransaction(connection, name, { pool: small, wait: 20_000 })
            assert.ok(!inside.has(name), 'a second holder')
            inside.add(name)
            await connection.query('select sleep(0.01)')
            inside.delete(name)
            await connection.commit()
            return token
          } finally {
            await connection.release()
          }
        })
        // One that wanted another connection would wait for it in vain.
        assert.equal((await Promise.all(tokens)).length, requests)
        await small.end()
      }
    })

    it('honours its wait, and locks one row, when the row of a name it knows is gone', async (t) => {
      const [a, b, c] = [await begun(t), await begun(t), await begun(t)]
      await inTransaction(a, 'gone', { pool })
      await a.commit()
      await server.query(`delete from holdfast_transactions where name = 'gone'`)
      await a.beginTransaction()
      const began = performance.now()
      const { token } = await inTransaction(a, 'gone', { pool, wait: 60_000 })
      assert.ok(performance.now() - began < 30_000, `${performance.now() - began} ms`)
      await assert.rejects(inTransaction(b, 'gone', { pool, wait: 300 }), AcquireTimeoutError)
      // The names beside it are free.
      await inTransaction(b, 'gonf', { pool, wait: 20_000 })
      await inTransaction(c, 'gond', { pool, wait: 20_000 })
      await a.commit()
      const next = await tryInTransaction(b, 'gone', { pool })
      assert.ok(next !== undefined && next.token > token)
    })

    it('refuses a name that the strategy row or session holds, which would not keep it out', async (t) => {
      for (const strategy of ['row', 'session'] as const) {
        const locks = createLocks(mysql({ pool, strategy }))
        t.after(() => locks.close())
        const name = `by ${strategy}`
        const lease = await locks.mutex(name).acquire()
        const a = await begun(t)
        const refused = { code: 'BACKEND', message: new RegExp(`held by the strategy ${strategy}`) }
        await assert.rejects(tryInTransaction(a, name, { pool }), refused)
        await assert.rejects(inTransaction(a, name, { pool }), refused)
        await lease.release()
        assert.notEqual(await tryInTransaction(a, name, { pool }), undefined)
      }
    })

    it('forgets rows that nobody has used for a day, but not those that are locked', async (t) => {
      const other = poolOf(library, server.port, 2)
      t.after(() => other.end())
      // Connected, so that it has one to spare at once.
      await (await other.getConnection()).release()
      const rows = async () =>
        (await server.query('select cast(name as char) as name from holdfast_transactions')).map((row) =>
          String(row['name']),
        )
      const [a, b] = [await begun(t), await begun(t)]
      for (const name of ['old', 'old and locked']) await inTransaction(b, name, { pool })
      await b.commit()
      const old = 'token = token - 90000 * 1000000'
      await server.query(`update holdfast_transactions set ${old} where name like 'old%'`)
      await a.query(`select * from holdfast_transactions where name = 'old and locked' for update`)
      await b.beginTransaction()
      // A pool that is new here: it looks at its first name, and then once a minute.
      const { token } = await inTransaction(b, 'young', { pool: other })
      await until(async () => !(await rows()).includes('old'))
      const left = await rows()
      assert.ok(left.includes('old and locked') && left.includes('young'), `${left}`)
      assert.ok(((await tryInTransaction(b, 'old', { pool: other }))?.token ?? 0) > token)
    })

    it('is a DeadlockError when two take two in opposite order, for one of them', async (t) => {
      const [a, b] = [await begun(t), await begun(t)]
      await inTransaction(a, 'one', { pool })
      await inTransaction(b, 'two', { pool })
      const both = await Promise.allSettled([
        inTransaction(a, 'two', { pool }),
        inTransaction(b, 'one', { pool }),
      ])
      const lost = both.filter((one) => one.status === 'rejected')
      assert.equal(lost.length, 1)
      assert.ok(lost[0]?.status === 'rejected' && lost[0].reason instanceof DeadlockError, String(lost[0]))
    })

    it('refuses a connection without a transaction, a pool, and anything that is not a connection', async (t) => {
      const a = await begun(t)
      await a.commit()
      await assert.rejects(inTransaction(a, 'x', { pool }), /needs an open transaction.*beginTransaction/)
      await assert.rejects(inTransaction(pool as never, 'x', { pool }), /take one with pool.getConnection/)
      await assert.rejects(inTransaction('mysql://' as never, 'x', { pool }), TypeError)
      await assert.rejects(inTransaction(a, 'x', { pool, wait: 0 }), /tryInTransaction/)
    })

    it('counts exactly where reading, waiting and writing loses, if it is taken before the first read', async () => {
      await server.query('create table counter (id int primary key, n int)')
      await server.query('insert into counter values (1, 0)')
      let reads = 0
      const add = async (locked: boolean) => {
        const connection = await pool.getConnection()
        try {
          for (let i = 0; i < 8; i++) {
            await connection.beginTransaction()
            if (locked) await inTransaction(connection, 'counter', { pool })
            const n = Number((await rowsOf(connection, 'select n from counter where id = 1'))[0]?.[0])
            reads++
            // Without the lock all have read before the first one writes.
            await until(() => locked || reads >= 4)
            await connection.query(`update counter set n = ${n + 1} where id = 1`)
            await connection.commit()
          }
        } finally {
          await connection.release()
        }
      }
      const count = async (locked: boolean) => {
        await server.query('update counter set n = 0')
        reads = 0
        await Promise.all([1, 2, 3, 4].map(() => add(locked)))
        return Number((await server.query('select n from counter'))[0]?.['n'])
      }
      assert.equal(await count(true), 32)
      assert.ok((await count(false)) < 32, 'nothing was lost without the lock: the test shows nothing')
    })

    it('taken after the first read of a transaction sees what was there before it (H96)', async (t) => {
      await server.query('create table story (id int primary key, n int)')
      await server.query('insert into story values (1, 1)')
      const [late, early] = [await begun(t), await begun(t)]
      const read = async (connection: Connection) =>
        Number((await rowsOf(connection, 'select n from story where id = 1'))[0]?.[0])
      assert.equal(await read(late), 1)
      await server.query('update story set n = 2')
      await inTransaction(late, 'story', { pool })
      assert.equal(await read(late), 1, 'the snapshot is older than the lock')
      await late.commit()
      await inTransaction(early, 'story', { pool })
      assert.equal(await read(early), 2)
    })

    it('locks one row, where FOR UPDATE without an index locks the table (H63)', async (t) => {
      await server.query('create table stock (id int primary key, sku int, n int)')
      await server.query('insert into stock values (1, 10, 5), (2, 20, 5)')
      const [a, b] = [await begun(t), await begun(t)]
      await b.query('set session innodb_lock_wait_timeout = 1')
      await a.query('select * from stock where sku = 10 for update')
      await assert.rejects(b.query('update stock set n = 4 where id = 2'), { errno: 1205 })
      await assert.rejects(b.query('insert into stock values (3, 30, 5)'), { errno: 1205 })
      await a.rollback()
      await b.rollback()
      for (const one of [a, b]) await one.beginTransaction()
      await inTransaction(a, 'sku 10', { pool })
      await inTransaction(b, 'sku 20', { pool, wait: 60_000 })
      await b.query('insert into stock values (3, 30, 5)')
    })

    it('is never a gap: two that lock a row that is not there both pass, and then deadlock (H64)', async (t) => {
      await server.query('create table orders (id int primary key)')
      const [a, b] = [await begun(t), await begun(t)]
      await a.query('select * from orders where id = 7 for update')
      await b.query('select * from orders where id = 7 for update')
      const both = await Promise.allSettled([
        a.query('insert into orders values (7)'),
        b.query('insert into orders values (7)'),
      ])
      const lost = both.filter((one) => one.status === 'rejected')
      assert.ok(
        lost.some((one) => (one.reason as { errno?: unknown }).errno === 1213),
        'nobody deadlocked',
      )
      await Promise.all([a.rollback(), b.rollback()])
      for (const one of [a, b]) await one.beginTransaction()
      await inTransaction(a, 'order 7', { pool })
      assert.equal(await tryInTransaction(b, 'order 7', { pool }), undefined)
    })

    it('never inserts in a transaction: a rolled-back insert deadlocks waiting inserts (H65)', async (t) => {
      await server.query('create table names (name varchar(20) primary key)')
      const [a, b, c] = [await begun(t), await begun(t), await begun(t)]
      await a.query(`insert into names values ('x')`)
      const others = Promise.allSettled([b, c].map((one) => one.query(`insert into names values ('x')`)))
      await until(async () => (await waitingFor(server)) >= 2, { what: 'two to wait', every: 150 })
      await a.rollback()
      const lost = (await others).filter((one) => one.status === 'rejected')
      assert.deepEqual(
        lost.map((one) => (one.reason as { errno?: unknown }).errno),
        [1213],
      )
      // The same with locks of names nobody has used before.
      await Promise.all([b.rollback(), c.rollback()])
      for (const one of [a, b, c]) await one.beginTransaction()
      await inTransaction(a, 'never used', { pool })
      const waiting = [b, c].map(async (one) => {
        await inTransaction(one, 'never used', { pool })
        await one.commit()
      })
      await until(async () => (await waitingFor(server)) >= 2, { what: 'two to wait', every: 150 })
      await a.rollback()
      await Promise.all(waiting)
    })
  })
}

async function rowsOf(connection: Connection, sql: string): Promise<readonly (readonly unknown[])[]> {
  const result = (await connection.query({ sql, rowsAsArray: true })) as unknown[][]
  // mysql2 answers [rows, fields], mariadb the rows.
  const [first] = result
  return (Array.isArray(first?.[0]) ? first : result) as unknown[][]
}

/** Asked more often than every 100 ms, the server keeps reporting the same. */
async function waitingFor(server: MysqlServer): Promise<number> {
  const [row] = await server.query(
    `select count(*) as n from information_schema.innodb_trx where trx_state = 'LOCK WAIT'`,
  )
  return Number(row?.['n'])
}

after(leakCheck)
