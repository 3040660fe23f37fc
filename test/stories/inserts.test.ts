// What the ways to insert only once do and lose, on both servers, as described in docs/stories.md.
// Second tier because it repeats on both servers what the database does, not what the locks do.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { mysql2, once, onceSchema, type Sql } from 'holdfast/guard'
import { createPool, type Pool, type PoolConnection } from 'mysql2/promise'
import { first, ignore, notExists, plain, replace, tables, update } from '../../examples/stories/inserts.js'
import { leakCheck } from '../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../support/servers/mysql.js'

for (const flavour of ['mariadb', 'mysql'] satisfies Flavour[]) {
  describe(`inserting once on ${flavour}`, { concurrency: false }, () => {
    let server: MysqlServer
    let pool: Pool
    let db: Sql
    before(async () => {
      server = await startMysql({ flavour })
      pool = createPool({ uri: server.url, connectionLimit: 10 })
      db = mysql2(pool)
      for (const statement of [...first, ...tables, ...onceSchema('mysql')]) await db.run(statement, [])
    })
    beforeEach(async () => {
      for (const table of ['parcels', 'orders', 'loose']) await db.run(`delete from ${table}`, [])
    })
    after(async () => {
      await pool.end()
      await server.stop()
    })
    const all = async (table = 'orders') => (await db.run(`select * from ${table} order by id`, [])).rows
    const items = async (table?: string) => (await all(table)).map((row) => row['item'])

    test('a unique key and a plain INSERT: one row, and an error for the second', async () => {
      const answers = await Promise.allSettled(['a', 'b', 'c'].map((item) => plain(db, '981', item)))
      assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1)
      for (const answer of answers) if (answer.status === 'rejected') assert.equal(answer.reason.errno, 1062)
      assert.equal((await all()).length, 1)
    })

    test('INSERT IGNORE: one row, and no word about what else was wrong', async () => {
      await ignore(db, '981', 'a')
      await ignore(db, '981', 'b')
      assert.deepEqual(await items(), ['a'])
      // The customer does not exist: the order is dropped without an error.
      await ignore(db, '982', 'a', 99)
      assert.equal((await all()).length, 1)
      await assert.rejects(plain(db, '982', 'a', 99), { errno: 1452 })
      // Too long: cut. Missing: made up.
      await ignore(db, '983', 'porcelain')
      await ignore(db, '984', null)
      assert.deepEqual(await items(), ['a', 'porce', ''])
      await assert.rejects(plain(db, '983', 'porcelain'), { errno: 1406 })
    })

    test('INSERT IGNORE: two requests that are the same once cut become one', async () => {
      await ignore(db, 'request-981', 'a')
      await ignore(db, 'request-982', 'b')
      assert.deepEqual(
        (await all()).map(({ request, item }) => [request, item]),
        [['request-98', 'a']],
      )
    })

    test('ON DUPLICATE KEY UPDATE: one row, but what the first one said is written over', async () => {
      await update(db, '981', 'a')
      const [before] = await all()
      await update(db, '981', 'b')
      const [now] = await all()
      assert.equal(now?.['item'], 'b')
      assert.equal(now?.['id'], before?.['id'])
    })

    test('ON DUPLICATE KEY UPDATE burns a number of the counter each time', async () => {
      await update(db, '981', 'a')
      for (let i = 0; i < 5; i++) await update(db, '981', 'b')
      await update(db, '982', 'c')
      const [one, two] = await all()
      assert.equal(Number(two?.['id']) - Number(one?.['id']), 6)
    })

    test('REPLACE: another row with another id; what was not given is at its default, and its children are deleted', async () => {
      await plain(db, '981', 'a')
      const [before] = await all()
      await db.run("update orders set note = 'ring twice'", [])
      await db.run('insert into parcels (order_id) values (?)', [before?.['id']])
      await replace(db, '981', 'a')
      const [now] = await all()
      assert.notEqual(now?.['id'], before?.['id'])
      assert.equal(now?.['note'], 'no note')
      assert.deepEqual(await all('parcels'), [])
    })

    test('INSERT … SELECT … WHERE NOT EXISTS: fine one after the other', async () => {
      await notExists(db, '981', 'a')
      await notExists(db, '981', 'b')
      assert.deepEqual(await items('loose'), ['a'])
    })

    test('INSERT … SELECT … WHERE NOT EXISTS without a unique key: two at once become two rows (READ COMMITTED)', async () => {
      const two = await connections(2)
      for (const connection of two) {
        await connection.query('set session transaction isolation level read committed')
        await connection.beginTransaction()
      }
      // Neither sees what the other has not committed.
      for (const [at, connection] of two.entries()) await notExists(mysql2(connection), '981', `${at}`)
      for (const connection of two) await connection.commit()
      assert.deepEqual(await items('loose'), ['0', '1'])
      await reset(two)
    })

    test('INSERT … SELECT … WHERE NOT EXISTS: locks what it looked at, so that two at once end in a deadlock (REPEATABLE READ)', async () => {
      const two = await connections(2)
      for (const connection of two) await connection.beginTransaction()
      // Both have looked, as if each statement had been stopped in its middle.
      for (const connection of two)
        await connection.query("select 1 from loose where request = '981' lock in share mode")
      const answers = await Promise.allSettled(
        two.map((connection) => notExists(mysql2(connection), '981', 'a')),
      )
      const failed = answers.filter((answer) => answer.status === 'rejected')
      assert.equal(failed.length, 1)
      // MariaDB may tell its deadlock as a counter that could not be read.
      const deadlock = flavour === 'mariadb' ? [1213, 1467] : [1213]
      for (const { reason } of failed) assert.ok(deadlock.includes(reason.errno), String(reason))
      for (const connection of two) await connection.rollback()
      await reset(two)
    })

    test('the record of `once`: one row, and everybody gets the first result', async () => {
      const make = async (item: string): Promise<unknown> => {
        const connection = await pool.getConnection()
        try {
          await connection.beginTransaction()
          const tx = mysql2(connection)
          const { result } = await once(tx, 'order:981', async () => {
            await plain(tx, '981', item)
            return { item }
          })
          await connection.commit()
          return result
        } finally {
          connection.release()
        }
      }
      const answers = await Promise.all(['a', 'b', 'c', 'd'].map(make))
      const [row] = await all()
      assert.deepEqual(
        answers,
        answers.map(() => ({ item: row?.['item'] })),
      )
      assert.equal((await all()).length, 1)
    })

    const connections = (n: number): Promise<PoolConnection[]> =>
      Promise.all(Array.from({ length: n }, () => pool.getConnection()))
    const reset = async (all: PoolConnection[]): Promise<void> => {
      for (const connection of all) {
        await connection.query('set session transaction isolation level repeatable read')
        connection.release()
      }
    }
  })
}

after(leakCheck)
