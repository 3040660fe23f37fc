// Clients may return rows as arrays, nested, renamed or converted. No guard treats such a row as one without a token.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { StaleTokenError } from 'holdfast'
import {
  admit,
  fenceSchema,
  guardedCommit,
  guardedDelete,
  guardedRead,
  guardedUpdate,
  guardedUpsert,
  mariadb,
  memoryFences,
  mysql2,
  once,
  onceSchema,
  pg,
  postgresJs,
  type Sql,
  sqlFences,
  withVersion,
} from 'holdfast/guard'
import { createConnection as connectMariadb } from 'mariadb'
import { createConnection as connectMysql2 } from 'mysql2/promise'
import { Client } from 'pg'
import postgres from 'postgres'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'

const table = 'create table rows_of_mine (id int primary key, val int, fence bigint, version int default 0)'
const fence = (token: number, name = 'mine') => ({ name, token })
const row = (id: number, token: number) => ({ table: 'rows_of_mine', key: { id }, fence: fence(token) })
const partsOf = (url: string) => {
  const { hostname: host, port, username: user } = new URL(url)
  return { host, port: Number(port), user, database: 'holdfast' }
}

async function schema(db: Sql): Promise<void> {
  for (const text of [table, ...fenceSchema(db.dialect), ...onceSchema(db.dialect)]) await db.run(text, [])
}

for (const flavour of ['mysql', 'mariadb'] as const) {
  describe(`rows of any form from ${flavour}`, () => {
    let server: Awaited<ReturnType<typeof startMysql>>
    before(async () => {
      server = await startMysql({ flavour })
      const connection = await connectMysql2(partsOf(server.url))
      await schema(mysql2(connection))
      await connection.end()
    })
    after(() => server.stop())

    const forms: Readonly<Record<string, object>> = {
      'rows as arrays': { rowsAsArray: true },
      'nested rows': { nestTables: true },
      'rows with the tables in their columns': { nestTables: '_' },
    }
    let id = 0
    for (const [form, options] of Object.entries(forms)) {
      test(`mysql2 with ${form}: guards work as ever`, async () => {
        const connection = await connectMysql2({ ...partsOf(server.url), ...options })
        await guardsWork(mysql2(connection), ++id)
        await connection.end()
      })
      test(`mariadb with ${form}: guards work as ever`, async () => {
        const given = { ...partsOf(server.url), allowPublicKeyRetrieval: true, ...options }
        const connection = await connectMariadb(given)
        await guardsWork(mariadb(connection), ++id)
        await connection.end()
      })
    }

    test('a token that the client has converted is an error, not an older token', async () => {
      const typeCast = () => 'converted'
      const connection = await connectMysql2({ ...partsOf(server.url), typeCast })
      const db = mysql2(connection)
      const name = 'converted'
      const converted = {
        name: 'TypeError',
        message: /^holdfast_fences has "converted" where the newest token belongs/,
      }
      await assert.rejects(admit(db, fence(9, name)), converted)
      await assert.rejects(sqlFences(db).admit(fence(8, name)), converted)
      await connection.end()
    })
  })
}

async function guardsWork(db: Sql, id: number): Promise<void> {
  const name = `lock ${id}`
  await admit(db, fence(9, name))
  await assert.rejects(admit(db, fence(8, name)), StaleTokenError)
  await assert.rejects(sqlFences(db).admit(fence(8, name)), StaleTokenError)
  await guardedUpsert(db, { ...row(id, 9), set: { val: 1 } })
  await assert.rejects(guardedUpsert(db, { ...row(id, 8), set: { val: 2 } }), StaleTokenError)
  await assert.rejects(guardedUpdate(db, { ...row(id, 8), set: { val: 3 } }), StaleTokenError)
  await assert.rejects(guardedDelete(db, row(id, 8)), StaleTokenError)
  assert.equal((await guardedRead(db, row(id, 9)))?.['val'], 1)
  const target = { table: 'rows_of_mine', key: { id } }
  assert.equal((await withVersion(db, target, ({ val }) => ({ val: Number(val) + 1 })))?.['val'], 2)
  assert.equal((await guardedRead(db, row(id, 9)))?.['val'], 2)
  const pay = () => once(db, name, () => ({ paid: true }))
  assert.deepEqual(await pay(), { result: { paid: true }, repeated: false })
  assert.deepEqual(await pay(), { result: { paid: true }, repeated: true })
}

describe('rows of any form from PostgreSQL', () => {
  let server: Awaited<ReturnType<typeof startPostgres>>
  let client: Client
  before(async () => {
    server = await startPostgres()
    client = new Client({ connectionString: server.url })
    await client.connect()
    await schema(pg(client))
  })
  after(async () => {
    await client.end()
    await server.stop()
  })

  test('postgres.js that renames columns: no guard passes for lack of a token', async () => {
    const sql = postgres(server.url, { max: 1, transform: postgres.toPascal, onnotice: () => undefined })
    const db = postgresJs(sql)
    const renamed = { name: 'TypeError', message: /row without the column/ }
    await admit(pg(client), fence(9))
    await assert.rejects(admit(db, fence(8)), renamed)
    await assert.rejects(sqlFences(db).admit(fence(8)), renamed)
    await guardedUpsert(pg(client), { ...row(1, 9), set: { val: 1 } })
    await assert.rejects(guardedUpsert(db, { ...row(1, 8), set: { val: 2 } }), renamed)
    await assert.rejects(guardedUpdate(db, { ...row(1, 8), set: { val: 3 } }), renamed)
    await assert.rejects(guardedDelete(db, row(1, 8)), renamed)
    await assert.rejects(
      once(db, 'payment', () => 1),
      renamed,
    )
    assert.equal((await guardedRead(pg(client), row(1, 9)))?.['val'], 1)
    await sql.end()
  })

  test('a write that a trigger holds back comes to an end, and does not pass for made', async () => {
    const db = pg(client)
    await db.run('create table kept (id int primary key, val int, fence bigint)', [])
    await db.run('insert into kept values (1, 1, 5)', [])
    await db.run("create function keep() returns trigger language plpgsql as 'begin return null; end'", [])
    await db.run(
      'create trigger keep before insert or update or delete on kept for each row execute function keep()',
      [],
    )
    const kept = { table: 'kept', key: { id: 1 }, fence: fence(6) }
    const heldBack = {
      message: /^kept: a write with token 6 did not reach its row.*trigger, a rule or a policy/,
    }
    await assert.rejects(guardedUpdate(db, { ...kept, set: { val: 2 } }), heldBack)
    await assert.rejects(guardedUpsert(db, { ...kept, set: { val: 2 } }), heldBack)
    await assert.rejects(guardedDelete(db, kept), heldBack)
    assert.deepEqual(await server.sql('select val from kept'), [{ val: 1 }])
  })
})

test('an invalid token never counts as the older one', async () => {
  let written = 0
  const commit = (token: string) =>
    guardedCommit({
      name: 'stock',
      fence: fence(5),
      read: async () => ({ token, version: 1 }),
      write: async () => ++written > 0,
    })
  await assert.rejects(commit('5, 6'), {
    name: 'TypeError',
    message: /^stock has "5, 6" where the newest token/,
  })
  await assert.rejects(memoryFences().admit(fence(Number.NaN)), RangeError)
  assert.equal(written, 0)
  await commit('4')
  assert.equal(written, 1)
})

after(leakCheck)
