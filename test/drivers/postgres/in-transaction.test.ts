// The lock inside the user's own transaction.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Pool } from 'pg'
import postgresJs from 'postgres'
import { inTransaction, migration, tryInTransaction } from '../../../src/drivers/postgres/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'
import { peer, terminateAll } from './support/peer.js'

const server = await startPostgres()
const pool = new Pool({ connectionString: server.url })
pool.on('error', () => undefined)
after(async () => {
  await pool.end()
  await server.stop()
})
await server.sql(migration())
await server.sql('create table accounts (id int primary key, points int, fence bigint default 0)')
await server.sql('insert into accounts values (1, 1000)')

for (const encoding of ['LATIN1', 'SQL_ASCII', 'WIN1252']) {
  test(`its token follows those of the same name on a connection with client_encoding ${encoding}`, async () => {
    const client = await pool.connect()
    const take = async (setting: string) => {
      await client.query('begin')
      await client.query(`set local client_encoding = '${setting}'`)
      const { token } = await inTransaction(client, `größe ${encoding} 锁`)
      await client.query('commit')
      return token
    }
    try {
      const first = await take('UTF8')
      // As if the clock had been put back by an hour since: only the row has the last token.
      await server.sql(`update holdfast_locks set up_to = up_to + 3600000000 where name like '%${encoding}%'`)
      const second = await take(encoding)
      assert.equal(second, first + 3_600_000_001)
      assert.equal(await take('UTF8'), second + 1)
    } finally {
      client.release()
    }
  })
}

test('is released by the commit, not before: nobody reads in between', async () => {
  const times = 25
  const redeem = async () => {
    const client = await pool.connect()
    try {
      await client.query('begin')
      const { token } = await inTransaction(client, 'account:1')
      const [row] = (await client.query('select points from accounts where id = 1')).rows
      await new Promise(setImmediate)
      const set = 'update accounts set points = $1, fence = $2 where id = 1 and fence < $2'
      assert.equal((await client.query(set, [row.points - 10, token])).rowCount, 1)
      await client.query('commit')
    } finally {
      client.release()
    }
  }
  await Promise.all(Array.from({ length: times }, redeem))
  assert.deepEqual(await server.sql('select points from accounts'), [{ points: 1000 - 10 * times }])
})

test('is released by a rollback and by the end of the connection; tokens grow', async (t) => {
  const [a, b] = [await pool.connect(), await pool.connect()]
  t.after(() => {
    a.release(true)
    b.release()
  })
  a.on('error', () => undefined)
  b.on('error', () => undefined)
  await a.query('begin')
  const first = await inTransaction(a, 'x')
  await b.query('begin')
  assert.equal(await tryInTransaction(b, 'x'), undefined)
  const waiting = inTransaction(b, 'x', { wait: 60_000 })
  await a.query('rollback')
  const second = await waiting
  assert.ok(second.token > first.token, 'what was rolled back took its token with it')
  await b.query('commit')
  await a.query('begin')
  await inTransaction(a, 'x')
  const [row] = (await a.query('select pg_backend_pid() as pid')).rows
  await b.query('begin')
  const third = inTransaction(b, 'x', { wait: 60_000 })
  await server.sql('select pg_terminate_backend($1)', [row.pid])
  assert.ok((await third).token > second.token)
  await b.query('commit')
})

test('ends with the savepoint after which it was acquired, although the transaction continues', async (t) => {
  const [a, b] = [await pool.connect(), await pool.connect()]
  t.after(() => {
    a.release()
    b.release()
  })
  await a.query('begin')
  await a.query('savepoint nested')
  await inTransaction(a, 'nested')
  await b.query('begin')
  assert.equal(await tryInTransaction(b, 'nested'), undefined)
  await a.query('rollback to savepoint nested')
  assert.ok(await tryInTransaction(b, 'nested'), 'the lock went with what came after the savepoint')
  await b.query('rollback')
  await inTransaction(a, 'before')
  await a.query('savepoint nested')
  await a.query('rollback to savepoint nested')
  await b.query('begin')
  assert.equal(await tryInTransaction(b, 'before'), undefined)
  await b.query('rollback')
  await a.query('rollback')
})

test('gives up after `wait`, names who holds it, and leaves the transaction usable', async (t) => {
  const { locks } = peer(t, server.port, { strategy: 'session' })
  const lease = await locks.mutex('shared with session').acquire({ note: 'nightly' })
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(`set local lock_timeout = '7s'`)
    await assert.rejects(inTransaction(client, 'shared with session', { wait: 50 }), {
      code: 'ACQUIRE_TIMEOUT',
      message: /held by .*nightly/,
    })
    const [row] = (await client.query('show lock_timeout')).rows
    assert.equal(row.lock_timeout, '7s')
    await lease.release()
    await inTransaction(client, 'shared with session', { wait: 20_000 })
    assert.equal((await client.query('show lock_timeout')).rows[0].lock_timeout, '7s')
    assert.equal(await locks.mutex('shared with session').tryAcquire(), undefined)
    await client.query('commit')
  } finally {
    client.release()
  }
  await (await locks.mutex('shared with session').acquire({ wait: 20_000 })).release()
})

test('may be shared by readers', async () => {
  const [a, b] = [await pool.connect(), await pool.connect()]
  for (const client of [a, b]) await client.query('begin')
  await inTransaction(a, 'readers', { mode: 'shared' })
  await inTransaction(b, 'readers', { mode: 'shared' })
  assert.equal(await tryInTransaction(a, 'readers'), undefined)
  for (const client of [a, b]) {
    await client.query('rollback')
    client.release()
  }
})

test('is refused where it would not work as documented, with the remedy', async () => {
  const client = await pool.connect()
  try {
    await assert.rejects(inTransaction(client, 'x'), {
      name: 'TypeError',
      message: /send 'begin' on this client first/,
    })
    await assert.rejects(inTransaction(pool as never, 'x'), {
      name: 'TypeError',
      message: /pool\.connect\(\)/,
    })
    await assert.rejects(inTransaction({} as never, 'x'), TypeError)
    await assert.rejects(inTransaction(client, ''), RangeError)
    await assert.rejects(inTransaction(client, 'x', { wait: 0 }), /tryInTransaction/)
    await assert.rejects(inTransaction(client, 'x', { mode: 'some' as never }), RangeError)
    for (const level of ['repeatable read', 'serializable']) {
      await client.query(`begin isolation level ${level}`)
      await assert.rejects(inTransaction(client, 'x'), {
        code: 'UNSUPPORTED',
        message: /isolation level read committed/,
      })
      await client.query('rollback')
    }
    await client.query('begin')
    await assert.rejects(inTransaction(client, 'x', { schema: 'elsewhere' }), /schema is missing/)
    await client.query('rollback')
  } finally {
    client.release()
  }
})

test('with postgres.js: inside sql.begin, and a lock that is not free does not fail the transaction', async (t) => {
  const sql = postgresJs(server.url, { max: 3, fetch_types: false })
  t.after(() => sql.end({ timeout: 1 }))
  await assert.rejects(inTransaction(sql as never, 'js'), { name: 'TypeError', message: /sql\.begin/ })
  let inside = 0
  const section = () =>
    sql.begin(async (tx) => {
      const { token } = await inTransaction(tx as never, 'js')
      assert.equal(++inside, 1)
      await tx`select 1`
      inside--
      return token
    })
  const tokens = await Promise.all([section(), section(), section()])
  assert.equal(new Set(tokens).size, 3)
  const holder = await pool.connect()
  await holder.query('begin')
  await inTransaction(holder, 'js')
  const answer = await sql.begin(async (tx) => {
    assert.equal(await tryInTransaction(tx as never, 'js'), undefined)
    await assert.rejects(inTransaction(tx as never, 'js', { wait: 30 }), { code: 'ACQUIRE_TIMEOUT' })
    return (await tx`select 7 as x`)[0]?.['x']
  })
  assert.equal(answer, 7)
  await holder.query('commit')
  holder.release()
})

test('a connection that ends takes the transaction and the lock with it', async () => {
  const client = await pool.connect()
  client.on('error', () => undefined)
  await client.query('begin')
  await inTransaction(client, 'gone')
  await client.query('update accounts set points = 0')
  await terminateAll(server)
  await until(async () => {
    const [row] = await server.sql(`select count(*)::int as n from pg_locks where locktype = 'advisory'`)
    return row?.['n'] === 0
  })
  await assert.rejects(client.query('commit'))
  client.release(true)
  const [row] = await server.sql('select points from accounts')
  assert.notEqual(row?.['points'], 0)
})

after(leakCheck)
