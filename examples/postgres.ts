/**
 * The database that you already have. The lock is a row with a lease, handed over by NOTIFY; reading and writing check the token, so that
 * a holder that slept through its lease writes nothing. Needs PostgreSQL at POSTGRES_URL; tables are created in their own schema and dropped.
 */
import assert from 'node:assert/strict'
import { createLocks, StaleTokenError } from 'holdfast'
import { guardedRead, guardedUpdate, pg } from 'holdfast/guard'
import { inTransaction, postgres } from 'holdfast/postgres'
import { Pool } from 'pg'

const schema = 'holdfast_example'
const url = process.env['POSTGRES_URL'] ?? 'postgres://localhost/postgres'
const pool = new Pool({ connectionString: url, options: `-c search_path=${schema}` })
await pool.query(`drop schema if exists ${schema} cascade`)
await pool.query(`create schema ${schema}`)
await pool.query('create table account (id int primary key, points int not null, fence bigint)')
await pool.query('insert into account (id, points) values (42, 100)')

const locks = createLocks(postgres({ pool, schema }))
const db = pg(pool)
const pointsNow = async () => (await pool.query('select points from account where id = 42')).rows[0].points

// Twenty changes at once, each of which reads, computes and writes. Token first, then read: `guardedRead` leaves the token in the row, so
// that no older holder writes between its reading and its writing.
const change = (by: number) =>
  locks.mutex('account:42').run(async (lease) => {
    const row = { table: 'account', key: { id: 42 }, fence: lease }
    const account = await guardedRead(db, row)
    await guardedUpdate(db, { ...row, set: { points: Number(account?.['points']) + by } })
    return lease.token
  })
const tokens = await Promise.all(Array.from({ length: 20 }, (_, i) => change(i % 2 === 0 ? 10 : -5)))
assert.equal(await pointsNow(), 150)

// The row itself refuses a write with an older token.
const late = { name: 'account:42', token: Math.min(...tokens) }
await assert.rejects(
  guardedUpdate(db, { table: 'account', key: { id: 42 }, set: { points: 0 }, fence: late }),
  StaleTokenError,
)
console.log('20 changes, none lost, and a late one refused:', await pointsNow())

// If the section is one transaction anyway, the lock can be part of it: commit releases it, after the write has become visible.
const client = await pool.connect()
await client.query('begin')
await inTransaction(client, 'account:42', { schema })
await client.query('update account set points = points - 50 where id = 42')
await client.query('commit')
client.release()
assert.equal(await pointsNow(), 100)

await locks.close()
await pool.query(`drop schema ${schema} cascade`)
await pool.end()
