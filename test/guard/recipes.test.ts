// The recipes for query builders, checked by the kit on real servers.
// Second tier because it starts servers for recipes that seldom change; sql.test.ts and http.test.ts are the part for every change.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { drizzle } from 'drizzle-orm/mysql2'
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres'
import { type GuardedResource, proveGuard } from 'holdfast/guard/testing'
import knexOver from 'knex'
import { Kysely, MysqlDialect, PostgresDialect } from 'kysely'
import { createPool } from 'mysql2'
import { createPool as createPromisePool } from 'mysql2/promise'
import { Pool } from 'pg'
import { saveInMysql, saveInPostgres } from '../../examples/recipes/drizzle.js'
import * as knex from '../../examples/recipes/knex.js'
import * as kysely from '../../examples/recipes/kysely.js'
import { leakCheck } from '../support/leaks.js'
import { type MysqlServer, startMysql } from '../support/servers/mysql.js'
import { type PostgresServer, startPostgres } from '../support/servers/postgres.js'

describe('recipes on MySQL', () => {
  let server: MysqlServer
  before(async () => {
    server = await startMysql({ flavour: 'mysql' })
    await server.query(
      'create table invoices (id varchar(60) primary key, total varchar(60), fence bigint, version int not null default 0)',
    )
  })
  after(() => server.stop())

  const row = async (id: string, write: GuardedResource['write']): Promise<GuardedResource> => {
    await server.query(`insert ignore into invoices (id) values ('${id}')`)
    const read = async () => {
      const [found] = await server.query(`select total from invoices where id = '${id}'`)
      return (found?.['total'] ?? undefined) as string | undefined
    }
    return { write, read }
  }

  test('Kysely: the kit proves it', async () => {
    const db = new Kysely<kysely.Shop>({
      dialect: new MysqlDialect({ pool: createPool({ uri: server.url }) }),
    })
    await proveGuard((id) => row(id, (value, fence) => kysely.save(db, id, value, fence)), { rounds: 20 })
    const seen = { id: 'versioned', version: 0 }
    await db
      .insertInto('invoices')
      .values({ ...seen, total: null, fence: null })
      .execute()
    assert.equal(await kysely.saveIfUnchanged(db, seen, 'mine'), true)
    assert.equal(await kysely.saveIfUnchanged(db, seen, 'late'), false)
    await db.destroy()
  })

  test('Drizzle: the kit proves it', async () => {
    const pool = createPromisePool({ uri: server.url })
    const db = drizzle(pool)
    await proveGuard((id) => row(id, (value, fence) => saveInMysql(db, id, value, fence)), { rounds: 20 })
    await pool.end()
  })

  test('Knex: the kit proves it', async () => {
    const db = knexOver({ client: 'mysql2', connection: server.url, pool: { min: 0, max: 5 } })
    await proveGuard((id) => row(id, (value, fence) => knex.save(db, id, value, fence)), { rounds: 20 })
    await db.destroy()
  })
})

describe('recipes on PostgreSQL', () => {
  let server: PostgresServer
  let pool: Pool
  before(async () => {
    server = await startPostgres()
    pool = new Pool({ connectionString: server.url })
    await pool.query(
      'create table invoices (id varchar(60) primary key, total varchar(60), fence bigint, version int not null default 0)',
    )
  })
  after(async () => {
    await pool.end()
    await server.stop()
  })

  const row = async (id: string, write: GuardedResource['write']): Promise<GuardedResource> => {
    await pool.query('insert into invoices (id) values ($1) on conflict do nothing', [id])
    const read = async () => {
      const { rows } = await pool.query('select total from invoices where id = $1', [id])
      return rows[0]?.total ?? undefined
    }
    return { write, read }
  }

  test('Kysely: the kit proves it', async () => {
    const db = new Kysely<kysely.Shop>({
      dialect: new PostgresDialect({ pool: new Pool({ connectionString: server.url }) }),
    })
    await proveGuard((id) => row(id, (value, fence) => kysely.save(db, id, value, fence)), { rounds: 20 })
    await db.destroy()
  })

  test('Drizzle: the kit proves it', async () => {
    const db = drizzlePg(pool)
    await proveGuard((id) => row(id, (value, fence) => saveInPostgres(db, id, value, fence)), { rounds: 20 })
  })

  test('Knex: the kit proves it', async () => {
    const db = knexOver({ client: 'pg', connection: server.url, pool: { min: 0, max: 5 } })
    await proveGuard((id) => row(id, (value, fence) => knex.save(db, id, value, fence)), { rounds: 20 })
    await db.destroy()
  })
})

after(leakCheck)
