// Clients with callbacks look like those with promises. A guard refuses them before it sends anything: it would never learn the result.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { guardedUpdate, mariadb, mysql2 } from 'holdfast/guard'
import { createConnection as mariadbConnection, createPool as mariadbPool } from 'mariadb'
import * as mariadbCallback from 'mariadb/callback'
import * as callback from 'mysql2'
import * as promise from 'mysql2/promise'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'

test('clients of mysql2 and mariadb with callbacks are refused before anything is sent, those with promises are taken', async (t) => {
  const server = await startMysql()
  t.after(() => server.stop())
  await server.query('create table t (id int primary key, v int, fence bigint)')
  await server.query('insert into t values (1, 0, 0)')
  const { hostname: host, port, username: user } = new URL(server.url)
  const place = { host, port: Number(port), user, database: 'holdfast', connectionLimit: 2 }
  let token = 0
  const write = (db: Parameters<typeof guardedUpdate>[0]) =>
    guardedUpdate(db, { table: 't', key: { id: 1 }, set: { v: 1 }, fence: { name: 'x', token: ++token } })

  const [pool, other] = [callback.createPool(place), mariadbCallback.createPool(place)]
  const connection = callback.createConnection({ host, port: Number(port), user, database: 'holdfast' })
  for (const one of [pool, connection])
    assert.throws(() => mysql2(one as never), {
      name: 'TypeError',
      message: /callbacks; pass pool.promise\(\)/,
    })
  assert.throws(() => mariadb(other as never), { name: 'TypeError', message: /callbacks/ })
  assert.deepEqual(await server.query('select v, fence from t'), [{ v: 0, fence: 0 }])

  assert.equal(await write(mysql2(pool.promise())), true)
  assert.equal(await write(mysql2(connection.promise())), true)
  await pool.promise().end()
  await connection.promise().end()
  await new Promise<void>((resolve) => other.end(() => resolve()))

  const made = promise.createPool(place)
  const borrowed = await made.getConnection()
  assert.equal(await write(mysql2(made)), true)
  assert.equal(await write(mysql2(borrowed)), true)
  borrowed.release()
  await made.end()
  const [own, single] = [mariadbPool(place), await mariadbConnection({ ...place })]
  const lent = await own.getConnection()
  for (const one of [own, single, lent]) assert.equal(await write(mariadb(one)), true)
  await lent.release()
  await single.end()
  await own.end()
})

after(leakCheck)
