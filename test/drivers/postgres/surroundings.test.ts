// What applications and databases do around the locks: poolers, exhausted pools, isolation levels, relaxed durability, many
// processes at once, missing rights.
// Second tier because it repeats with poolers and settings what the others show.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Client } from 'pg'
import postgresJs from 'postgres'
import { createCalls } from '../../../src/drivers/postgres/sql.js'
import { leakCheck } from '../../support/leaks.js'
import { startPgBouncer } from '../../support/servers/pgbouncer.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'
import { inLine, peer } from './support/peer.js'

const server = await startPostgres()
after(() => server.stop())

test('through a transaction pooler, with a direct connection to listen', async (t) => {
  const pooler = await startPgBouncer(server, 'transaction', 2)
  t.after(() => pooler.stop())
  const direct = peer(t, server.port)
  // Pushed: by itself nobody would look.
  const [a, b] = [1, 2].map(() => peer(t, pooler.port, { listen: direct.pool, onlyTold: true })) as [
    ReturnType<typeof peer>,
    ReturnType<typeof peer>,
  ]
  for (let i = 0; i < 10; i++) {
    const lease = await a.locks.mutex('pooled').acquire()
    const next = b.locks.mutex('pooled').acquire({ wait: 60_000 })
    await inLine(a.locks, 'pooled', 1)
    await lease.release()
    await (await next).release()
  }
})

test('through a transaction pooler by polling, first come, first served', async (t) => {
  const pooler = await startPgBouncer(server, 'transaction', 2)
  t.after(() => pooler.stop())
  const peers = [1, 2, 3].map(() => peer(t, pooler.port, { listen: false }))
  const [first] = peers
  assert.ok(first)
  const lease = await first.locks.mutex('polled').acquire()
  const served: number[] = []
  const waits = []
  for (const [i, { locks }] of peers.slice(1).entries()) {
    waits.push(locks.mutex('polled').run(() => void served.push(i)))
    await inLine(first.locks, 'polled', i + 1)
  }
  await lease.release()
  await Promise.all(waits)
  assert.deepEqual(served, [0, 1])
})

test('advisory locks are refused behind a pooler, and the error says why', async (t) => {
  const pooler = await startPgBouncer(server, 'transaction', 1)
  t.after(() => pooler.stop())
  const { locks, pool } = peer(t, pooler.port, { strategy: 'session' })
  await assert.rejects(locks.mutex('x').acquire(), {
    code: 'BACKEND',
    message: /a pooler \(PgBouncer\?\) stands in between.*use strategy 'row'/,
  })
  // What would happen: both get it, because both are the same session of the server.
  const [one, two] = [await pool.connect(), await pool.connect()]
  const take = 'select pg_try_advisory_lock(42) as got'
  const got = [(await one.query(take)).rows[0].got, (await two.query(take)).rows[0].got]
  assert.deepEqual(got, [true, true])
  for (const client of [one, two]) client.release()
  await server.sql('select pg_terminate_backend(pid) from pg_locks where objid = 42')
})

test('with postgres.js, too', async (t) => {
  const pooler = await startPgBouncer(server, 'transaction', 1)
  const sql = postgresJs(pooler.url, { max: 1, max_lifetime: null, fetch_types: false })
  const { createLocks } = await import('../../../src/create-locks.js')
  const { postgres } = await import('../../../src/drivers/postgres/index.js')
  const locks = createLocks(postgres({ pool: sql as never, strategy: 'session' }))
  t.after(async () => {
    await locks.close()
    await sql.end({ timeout: 1 })
    await pooler.stop()
  })
  await assert.rejects(locks.mutex('x').acquire(), /a pooler/)
})

for (const strategy of ['row', 'session'] as const) {
  test(`a pool of 5 with 50 waiters and a holder that needs the pool: no deadlock (${strategy})`, async (t) => {
    const { locks, pool } = peer(t, server.port, { strategy, config: { max: 5 } })
    const other = peer(t, server.port, { strategy })
    const name = `pool ${strategy}`
    const first = await other.locks.mutex(name).acquire()
    let done = 0
    const requests = Array.from({ length: 50 }, async () => {
      // As a web application does it: a connection for the request, and then the lock.
      const client = await pool.connect()
      try {
        await locks.mutex(name).run(async () => {
          await client.query('select 1')
          done++
        })
      } finally {
        client.release()
      }
    })
    // All five are taken by requests that wait for the lock.
    await inLine(other.locks, name, 1)
    assert.equal(pool.idleCount, 0)
    assert.ok(pool.waitingCount > 0)
    await first.release()
    await Promise.all(requests)
    assert.equal(done, 50)
    const holders = Array.from({ length: 50 }, () => locks.mutex(name).run(() => pool.query('select 1')))
    await Promise.all(holders)
  })
}

for (const level of ['repeatable read', 'serializable']) {
  test(`connections that are ${level} by default change nothing`, async (t) => {
    const config = { options: `-c default_transaction_isolation=${level.replace(' ', '\\ ')}` }
    const peers = Array.from({ length: 6 }, () => peer(t, server.port, { config }))
    let inside = 0
    let done = 0
    const work = peers.map(async ({ locks, pool }) => {
      const { rows } = await pool.query('show default_transaction_isolation')
      assert.equal(rows[0].default_transaction_isolation, level)
      for (let i = 0; i < 25; i++) {
        await locks.mutex(`isolated ${level}`).run(async () => {
          assert.equal(++inside, 1)
          await new Promise(setImmediate)
          inside--
          done++
        })
        await locks.semaphore(`some ${level}`, { permits: 2 }).run(() => undefined)
      }
    })
    await Promise.all(work)
    assert.equal(done, 150)
  })
}

test('a release at REPEATABLE READ notifies a waiter whose channel came up after it began', async (t) => {
  const schema = 'patient'
  await peer(t, server.port, { schema })
    .locks.mutex('began')
    .run(() => undefined)
  // On a slow machine it may take longer than 100 ms until both wait for the row.
  const [begin] = await server.sql(`select pg_get_functiondef('patient.holdfast_begin_v1'::regproc) as text`)
  const patient = String(begin?.['text']).replace(`'lock_timeout', '100'`, `'lock_timeout', '60000'`)
  assert.match(patient, /'60000'/)
  await server.sql(patient)
  const [holder, waiter, stranger] = await Promise.all(
    [1, 2, 3].map(async () => {
      const client = new Client(server.url)
      await client.connect()
      t.after(() => client.end())
      return client
    }),
  )
  assert.ok(holder && waiter && stranger)
  const calls = createCalls(schema)
  const ask = async (client: Client, attempt: string, channel: string | null) => {
    const minute = 60_000_000
    const values = ['began', attempt, 'x', minute, 1, 1, 1, minute, 0, channel, null, 'test', '', 0]
    return JSON.parse((await client.query(calls.acquire.text, values)).rows[0].answer)[0]
  }
  assert.equal(await ask(holder, 'first', null), 'granted')
  assert.equal(await ask(waiter, 'second', null), 'blocked')
  await stranger.query('begin')
  await stranger.query(`select from patient.holdfast_locks where name = 'began' for update`)
  const waitingFor = async (count: number) => {
    const rows = await server.sql(`select from pg_stat_activity where wait_event_type = 'Lock'`)
    return rows.length === count
  }
  // Both wait for the row, and the release has seen by then what there was when it began.
  const rises = ask(waiter, 'second', 'a channel')
  await until(() => waitingFor(1))
  await holder.query(`set default_transaction_isolation = 'repeatable read'`)
  const release = () => holder.query(calls.release.text, ['began', 'first', 0, 0])
  // As the driver does.
  const released = release().catch((error: { code?: string }) => {
    assert.equal(error.code, '40001')
    return release()
  })
  await until(() => waitingFor(2))
  await stranger.query('commit')
  assert.equal(await rises, 'blocked')
  await released
  const [row] = await server.sql(`select owner from patient.holdfast_locks where name = 'began'`)
  assert.equal(row?.['owner'], 'second', 'it is free, and who waits for it has not been told')
})

test('sixteen processes that contend for few names: no deadlock, no error', async (t) => {
  const before = await server.sql('select sum(deadlocks)::int as n from pg_stat_database')
  const peers = Array.from({ length: 16 }, () => peer(t, server.port))
  const inside = new Map<string, number>()
  const stop = performance.now() + 5_000
  let done = 0
  const work = peers.flatMap(({ locks }, p) =>
    [0, 1, 2].map(async (k) => {
      while (performance.now() < stop || done <= 500) {
        const name = `crowd ${(p + k + done) % 3}`
        await locks.mutex(name).run(async () => {
          inside.set(name, (inside.get(name) ?? 0) + 1)
          assert.equal(inside.get(name), 1)
          await new Promise(setImmediate)
          inside.set(name, (inside.get(name) ?? 0) - 1)
          done++
        })
      }
    }),
  )
  await Promise.all(work)
  const after = await server.sql('select sum(deadlocks)::int as n from pg_stat_database')
  assert.deepEqual(after, before)
})

test('where commits do not wait for the disk, those of locks do', async (t) => {
  await using relaxed = await startPostgres({
    settings: { synchronous_commit: 'off', wal_writer_delay: '10s', fsync: 'on' },
  })
  await relaxed.sql('create table orders (id int)')
  const a = peer(t, relaxed.port, { ttl: 120_000 })
  await a.locks.mutex('durable').run(() => undefined)
  const lease = await a.locks.mutex('durable').acquire()
  // Nobody writes by the clock what the insert leaves behind.
  const [writer] = await relaxed.sql(`select pid from pg_stat_activity where backend_type = 'walwriter'`)
  process.kill(Number(writer?.['pid']), 'SIGSTOP')
  await relaxed.sql('insert into orders values (1)')
  await relaxed.restart()
  assert.deepEqual(
    await relaxed.sql('select * from orders'),
    [],
    'the crash lost nothing, so it shows nothing',
  )
  const b = peer(t, relaxed.port)
  assert.equal(await b.locks.mutex('durable').tryAcquire(), undefined)
  assert.equal((await b.locks.inspect('durable')).holders[0]?.token, lease.token)
  await lease.release()
  const second = await b.locks.mutex('durable').acquire()
  assert.ok(second.token > lease.token)
  await second.release()
})

for (const strategy of ['row', 'session'] as const) {
  test(`tables that somebody has locked as a whole: a new connection gets an error that says why (${strategy})`, async (t) => {
    const schema = `locked_${strategy}`
    await peer(t, server.port, { strategy, schema })
      .locks.mutex('first')
      .run(() => undefined)
    const stranger = new Client(server.url)
    await stranger.connect()
    t.after(() => stranger.end())
    await stranger.query('begin')
    const names = ['locks', 'holds', 'waiters'].map((table) => `${schema}.holdfast_${table}`)
    await stranger.query(`lock table ${names.join()} in access exclusive mode`)
    // Its connections have not used the functions yet.
    const { locks } = peer(t, server.port, { strategy, schema, commandTimeout: 10_000 })
    const reason = { code: 'BACKEND', message: /somebody else keeps the row of this lock/ }
    await assert.rejects(locks.mutex('x').acquire({ wait: 3_000 }), reason)
    await assert.rejects(locks.mutex('x').tryAcquire(), reason)
    await assert.rejects(locks.inspect('x'), reason)
    await stranger.query('commit')
    await locks.mutex('x').run(() => undefined)
  })
}

test('many processes that find no tables make them once', async (t) => {
  const peers = Array.from({ length: 8 }, () => peer(t, server.port, { schema: 'fresh' }))
  const tokens = await Promise.all(peers.map(({ locks }) => locks.mutex('first').run(({ token }) => token)))
  assert.equal(new Set(tokens).size, 8)
})

test('the error names the right that the role lacks, and the remedy', async (t) => {
  await server.sql('create role nobody_special login')
  const config = { user: 'nobody_special' }
  const without = peer(t, server.port, { config, schema: 'forbidden' })
  await assert.rejects(without.locks.mutex('x').acquire(), {
    code: 'BACKEND',
    message: /the role lacks a right; `holdfast schema --role NAME` prints what it needs/,
  })
  const absent = peer(t, server.port, { schema: 'absent', create: false })
  await assert.rejects(
    absent.locks.mutex('x').acquire(),
    /its schema is missing; run what `holdfast schema` prints/,
  )
})

test('a table that somebody has renamed is reported as missing, with the remedy', async (t) => {
  const schema = 'renamed'
  const { locks } = peer(t, server.port, { schema })
  await (await locks.mutex('x').acquire()).release()
  await server.sql(`alter table ${schema}.holdfast_locks rename to old_locks`)
  const newcomer = peer(t, server.port, { schema })
  await assert.rejects(newcomer.locks.mutex('x').acquire(), {
    code: 'BACKEND',
    message: /its tables are missing; run what `holdfast schema` prints/,
  })
  await server.sql(`alter table ${schema}.old_locks rename to holdfast_locks`)
  await (await newcomer.locks.mutex('x').acquire()).release()
})

test('a name unused for long is forgotten, and its tokens keep growing', async (t) => {
  const { locks } = peer(t, server.port)
  const token = await locks.mutex('idle').run((lease) => lease.token)
  const held = await locks.mutex('busy').acquire()
  await server.sql('select holdfast_reap_v1(0)')
  const names = (await server.sql(`select name from holdfast_locks`)).map(({ name }) => name)
  assert.ok(!names.includes('idle') && names.includes('busy'))
  assert.ok((await locks.mutex('idle').run((lease) => lease.token)) > token)
  assert.equal(await held.release(), 'released')
})

after(leakCheck)
