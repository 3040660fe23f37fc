// Known failures of locks in PostgreSQL, reproduced on a real server, and their effect here
// (docs/hazards.md has them all).
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Client } from 'pg'
import { inTransaction, tryInTransaction } from '../../../src/drivers/postgres/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'
import { inLine, peer } from './support/peer.js'

const server = await startPostgres({ preload: ['clock'] })
after(() => server.stop())

test('H61: a row without an expiry stays when its process dies; one with an expiry does not', async (t) => {
  await server.sql('create table taken (name text primary key)')
  await server.sql(`insert into taken values ('job')`)
  await assert.rejects(server.sql(`insert into taken values ('job')`), { code: '23505' })
  await peer(t, server.port).locks.mutex('job').acquire({ ttl: 500, autoRenew: false })
  const next = await peer(t, server.port).locks.mutex('job').acquire({ wait: 60_000 })
  await next.release()
})

test('H62: now() is the start of the transaction, so an expiry counted from it may have passed; ours counts from the clock', async (t) => {
  const { locks, pool } = peer(t, server.port)
  await server.sql('create table leases (name text primary key, until timestamptz)')
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query('select pg_sleep(0.3)')
    await client.query(`insert into leases values ('job', now() + interval '200 ms')`)
    const [row] = (await client.query('select until > clock_timestamp() as held from leases')).rows
    assert.equal(row.held, false)
    const before = Number(
      (await server.sql('select extract(epoch from clock_timestamp()) * 1e6 as now'))[0]?.['now'],
    )
    assert.ok((await inTransaction(client, 'job')).token >= before)
    await client.query('commit')
  } finally {
    client.release()
  }
  const real = Date.now
  t.after(() => {
    Date.now = real
  })
  Date.now = () => real() - 3_600_000
  const lease = await locks.mutex('clock').acquire({ ttl: 60_000 })
  Date.now = real
  const other = peer(t, server.port).locks
  assert.equal(await other.mutex('clock').tryAcquire(), undefined)
  const [holder] = (await other.inspect('clock')).holders
  assert.ok(holder !== undefined && holder.expiresIn > 20_000 && holder.expiresIn <= 60_000)
  assert.equal(await lease.release(), 'released')
})

test('H71: two names with the same 32-bit hash are one advisory lock; ours are separate', async (t) => {
  const [pair] = await server.sql(
    `select min(i) a, max(i) b from generate_series(1, 400000) i group by hashtext('order ' || i) having count(*) > 1 limit 1`,
  )
  assert.ok(pair !== undefined)
  const names = [`order ${pair['a']}`, `order ${pair['b']}`]
  const { pool, locks } = peer(t, server.port, { strategy: 'session' })
  const clients = [await pool.connect(), await pool.connect()]
  const got = []
  for (const [i, client] of clients.entries()) {
    const { rows } = await client.query('select pg_try_advisory_lock(hashtext($1)) as got', [names[i]])
    got.push(rows[0].got)
  }
  assert.deepEqual(got, [true, false])
  for (const client of clients) {
    await client.query('select pg_advisory_unlock_all()')
    client.release()
  }
  const held = await Promise.all(names.map((name) => locks.mutex(name).acquire()))
  for (const lease of held) await lease.release()
})

test('H73: “not free” is an error that fails the transaction; here it is `undefined`', async (t) => {
  const { pool } = peer(t, server.port)
  await server.sql('create table seats (id int primary key)')
  await server.sql('insert into seats values (1)')
  const [a, b] = [await pool.connect(), await pool.connect()]
  try {
    for (const one of [a, b]) await one.query('begin')
    const nowait = 'select * from seats where id = 1 for update nowait'
    await a.query(nowait)
    await assert.rejects(b.query(nowait), { code: '55P03' })
    await assert.rejects(b.query('select 1'), { code: '25P02' })
    await b.query('rollback')
    await b.query('begin')
    assert.ok((await tryInTransaction(a, 'seat 1')) !== undefined)
    assert.equal(await tryInTransaction(b, 'seat 1'), undefined)
    await b.query('select 1')
  } finally {
    for (const one of [a, b]) {
      await one.query('rollback')
      one.release()
    }
  }
})

test('H76: a process that stops inside a transaction keeps its rows locked for ever; a lease keeps no transaction open', async (t) => {
  const { pool, locks } = peer(t, server.port)
  const stopped = await pool.connect()
  try {
    await server.sql('create table shelf (id int primary key)')
    await server.sql('insert into shelf values (1)')
    await stopped.query('begin')
    await stopped.query('select * from shelf for update')
    await assert.rejects(server.sql('select * from shelf for update nowait'), { code: '55P03' })
    await stopped.query('rollback')
  } finally {
    stopped.release()
  }
  const lease = await locks.mutex('shelf').acquire()
  const next = peer(t, server.port).locks.mutex('shelf').acquire()
  await inLine(locks, 'shelf', 1)
  const open = await server.sql(`select * from pg_stat_activity where state like 'idle in transaction%'`)
  assert.deepEqual(open, [])
  await lease.release()
  await (await next).release()
})

test('H76: a stranger’s open transaction on the row of a lock delays it, is reported, and does no lasting harm', async (t) => {
  // The server waits a second and a half for the row; its refusal is to come before the driver gives the answer up.
  const { pool, locks } = peer(t, server.port, { commandTimeout: 20_000 })
  await locks.mutex('kept').run(() => undefined)
  const stranger = await pool.connect()
  try {
    await stranger.query('begin')
    await stranger.query(`select * from holdfast_locks where name = 'kept' for update`)
    await assert.rejects(locks.mutex('kept').tryAcquire(), {
      code: 'BACKEND',
      message: /somebody else keeps the row of this lock/,
    })
    const waiting = locks.mutex('kept').acquire({ wait: 60_000 })
    await stranger.query('rollback')
    await (await waiting).release()
  } finally {
    stranger.release()
  }
})

test('H79: a server that is read-only for a while, as in a fail-over, is waited for', async (t) => {
  const { locks } = peer(t, server.port)
  await locks.mutex('fail-over').run(() => undefined)
  await server.sql('alter system set default_transaction_read_only = on')
  await server.sql('select pg_reload_conf()')
  try {
    // The server tells its processes before it starts another with the new setting.
    await until(async () => {
      const fresh = new Client(server.url)
      await fresh.connect()
      const { rows } = await fresh.query('show default_transaction_read_only')
      await fresh.end()
      return rows[0].default_transaction_read_only === 'on'
    })
    await assert.rejects(locks.mutex('fail-over').tryAcquire(), {
      code: 'BACKEND',
      message:
        /it is read-only: a standby, a primary that has been replaced, or a connection with default_transaction_read_only/,
    })
  } finally {
    await server.sql('alter system reset default_transaction_read_only')
    await server.sql('select pg_reload_conf()')
  }
  await (await locks.mutex('fail-over').acquire({ wait: 60_000 })).release()
})

test('a row that is reaped after the clock was set back takes no token with it', async (t) => {
  const { locks } = peer(t, server.port)
  server.clockJump(600_000)
  const ahead = await locks.mutex('ahead').run(({ token }) => token)
  server.clockJump(-600_000)
  // Used by the clock as it is now, so that it looks idle.
  await locks.mutex('ahead').run(() => undefined)
  await server.sql('select holdfast_reap_v1(0)')
  assert.ok((await locks.mutex('ahead').run(({ token }) => token)) > ahead)
})

test('H96: a value read before the lock is older than the lock', async (t) => {
  const { pool } = peer(t, server.port)
  await server.sql('create table story (n int)')
  await server.sql('insert into story values (1)')
  const client = await pool.connect()
  try {
    await client.query('begin isolation level repeatable read')
    assert.equal((await client.query('select n from story')).rows[0].n, 1)
    await server.sql('update story set n = 2')
    assert.equal((await client.query('select n from story')).rows[0].n, 1, 'the snapshot is older')
    await assert.rejects(inTransaction(client, 'story'), /repeatable read/i)
    await client.query('rollback')
  } finally {
    client.release()
  }
})

after(leakCheck)
