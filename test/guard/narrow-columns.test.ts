// A fence in a column that is too narrow for tokens: why the docs ask for a BIGINT.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { StaleTokenError } from 'holdfast'
import { guardedUpdate, mysql2 } from 'holdfast/guard'
import { createConnection } from 'mysql2/promise'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'

test('MySQL without strict mode keeps no token in an INT, with strict mode it refuses, and a BIGINT keeps it', async (t) => {
  await using server = await startMysql()
  const connection = await createConnection(server.url)
  t.after(() => connection.end())
  const db = mysql2(connection)
  const now = Date.now() * 1000
  const write = (table: string, token: number) =>
    guardedUpdate(db, { table, key: { id: 1 }, set: { v: token % 1000 }, fence: { name: 'x', token } })
  for (const type of ['int', 'bigint']) {
    await connection.query(`create table t_${type} (id int primary key, v int, fence ${type})`)
    await connection.query(`insert into t_${type} values (1, 0, 0)`)
  }
  await assert.rejects(write('t_int', now), /Out of range value for column 'fence'/)
  await connection.query(`set sql_mode = ''`)
  for (const type of ['int', 'bigint']) assert.equal(await write(`t_${type}`, now + 2), true)
  assert.equal(await write('t_int', now + 1), true)
  await assert.rejects(write('t_bigint', now + 1), StaleTokenError)
})

after(leakCheck)
