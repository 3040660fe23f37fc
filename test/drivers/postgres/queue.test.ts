// Runs alone because it measures how long a free lock stands idle: behind the dead, the cancelled, and very many.
// Second tier because it needs the machine for itself.
import assert from 'node:assert/strict'
import { setMaxListeners } from 'node:events'
import { after, test } from 'node:test'
import { createLocks, type Lease } from 'holdfast'
import postgresJs from 'postgres'
import { type PostgresPool, postgres } from '../../../src/drivers/postgres/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'
import { cabled, inLine, peer } from './support/peer.js'

const server = await startPostgres()
after(() => server.stop())

const count = async (text: string) => Number((await server.sql(text))[0]?.['n'])

test('two hundred dead waiters cost the waiter behind them nothing', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port, { onlyTold: true })]
  const dead = await cabled(t, server)
  const lease = await a.locks.mutex('dead').acquire({ ttl: 120_000 })
  const waits = Array.from({ length: 200 }, () =>
    dead.locks
      .mutex('dead')
      .acquire({ fair: true, wait: 60_000 })
      .catch(() => undefined),
  )
  const standing = `select count(*)::int as n from holdfast_waiters where name = 'dead' and listener is not null`
  await until(async () => (await count(standing)) === 200)
  const next = b.locks.mutex('dead').acquire({ wait: 60_000 })
  await until(async () => (await count(standing)) === 201)
  // As kill -9 of its process: the server sees its connections end, and nothing comes of it any more.
  dead.cable.up.drop()
  dead.cable.down.drop()
  await server.sql(
    `select pg_terminate_backend(split_part(listener, ' ', 1)::int, 5000) from (select distinct listener from holdfast_waiters
     where name = 'dead' and attempt in (select attempt from holdfast_waiters where name = 'dead' order by ticket limit 200)) w`,
  )
  const began = performance.now()
  await lease.release()
  const second = await next
  const took = performance.now() - began
  // Each of them is thought alive for two seconds: one after the other they would cost minutes.
  assert.ok(took < 15_000, `free for ${took} ms`)
  t.diagnostic(`free for ${took} ms`)
  assert.ok(second.remaining() >= 27_000)
  await second.release()
  // They send nothing any more.
  dead.cable.reset()
  await dead.locks.close()
  await Promise.all(waits)
})

test('a lock reserved for a polling waiter admits compatible claims', async (t) => {
  const [holder, other] = [peer(t, server.port), peer(t, server.port)]
  const silent = await cabled(t, server, { listen: false })
  const whole = await holder.locks.mutex('page').acquire()
  const seats = await holder.locks.semaphore('seats', { permits: 3 }).acquire({ permits: 3 })
  const waits = [
    silent.locks.readWrite('page').read.acquire(),
    silent.locks.semaphore('seats', { permits: 3 }).acquire(),
  ].map((wait) => wait.catch(() => undefined))
  await inLine(holder.locks, 'page', 1)
  await inLine(holder.locks, 'seats', 1)
  // It asks no more, and is thought alive for two seconds.
  silent.cable.up.drop()
  const since = performance.now()
  await Promise.all([whole.release(), seats.release()])
  const reader = await other.locks.readWrite('page').read.tryAcquire()
  const writer = await holder.locks.readWrite('page').write.tryAcquire()
  const two = await other.locks.semaphore('seats', { permits: 3 }).tryAcquire({ permits: 2 })
  const third = await other.locks.semaphore('seats', { permits: 3 }).tryAcquire()
  assert.ok(reader, 'a reader was refused beside a reader')
  assert.equal(writer, undefined)
  assert.ok(two, 'permits that the waiter leaves were refused')
  if (performance.now() - since < 1_500) assert.equal(third, undefined, 'its permit was given away')
  silent.cable.reset()
  await silent.locks.close()
  await Promise.all(waits)
})

test('locks that are closed while somebody keeps the row leave no queue entry', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('kept row').acquire({ ttl: 60_000 })
  const wait = b.locks.mutex('kept row').acquire({ wait: 60_000 })
  wait.catch(() => undefined)
  await inLine(a.locks, 'kept row', 1)
  const other = await a.pool.connect()
  try {
    await other.query('begin')
    await other.query(`select from holdfast_locks where name = 'kept row' for update`)
    const closed = b.locks.close()
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    await other.query('commit')
    await closed
  } finally {
    other.release()
  }
  assert.equal(await count(`select count(*)::int as n from holdfast_waiters where name = 'kept row'`), 0)
  await lease.release()
})

test('locks that are closed while the server gives no answer for a moment leave no place in the queue', async (t) => {
  const a = peer(t, server.port)
  // It listens over another connection, which is well.
  const b = await cabled(t, server, { listen: a.pool as unknown as PostgresPool, commandTimeout: 2_000 })
  const lease = await a.locks.mutex('hung').acquire({ ttl: 60_000 })
  const wait = b.locks.mutex('hung').acquire({ wait: 60_000 })
  wait.catch(() => undefined)
  await inLine(a.locks, 'hung', 1)
  b.cable.blackHole()
  const closed = b.locks.close()
  // Two tries have timed out by then, the third has not.
  await new Promise((resolve) => setTimeout(resolve, 5_000))
  b.cable.heal()
  await closed
  assert.equal(await count(`select count(*)::int as n from holdfast_waiters where name = 'hung'`), 0)
  await lease.release()
})

test('locks that are closed as the server is back after an outage leave no place in the queue', async (t) => {
  const a = peer(t, server.port)
  const b = await cabled(t, server, { commandTimeout: 500 })
  const lease = await a.locks.mutex('back').acquire({ ttl: 60_000 })
  const [gone, reason] = [new AbortController(), new Error('given up')]
  const wait = b.locks.mutex('back').acquire({ wait: 60_000, signal: gone.signal })
  await inLine(a.locks, 'back', 1)
  b.cable.refuse()
  b.cable.reset()
  gone.abort(reason)
  await assert.rejects(wait, (error) => error === reason)
  await b.cable.accept()
  await b.locks.close()
  assert.equal(await count(`select count(*)::int as n from holdfast_waiters where name = 'back'`), 0)
  await lease.release()
})

test('three thousand waits that are aborted at once leave no free lock idle, and no place', async (t) => {
  const [a, b, c] = [peer(t, server.port), peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('aborted').acquire({ ttl: 120_000 })
  const gone = new AbortController()
  setMaxListeners(0, gone.signal)
  const waits = Array.from({ length: 3_000 }, () =>
    b.locks
      .mutex('aborted')
      .acquire({ fair: true, wait: 60_000, signal: gone.signal })
      .catch(() => undefined),
  )
  await until(
    async () =>
      (await count(`select count(*)::int as n from holdfast_waiters where name = 'aborted'`)) > 1_000,
    {
      within: 60_000,
    },
  )
  const next = c.locks.mutex('aborted').acquire({ wait: 60_000 })
  gone.abort()
  await Promise.all(waits)
  const began = performance.now()
  await lease.release()
  await (await next).release()
  const took = performance.now() - began
  // One of them that was granted the lock would keep it for its ttl of 30 s.
  assert.ok(took < 15_000, `free for ${took} ms`)
  t.diagnostic(`free for ${took} ms`)
  await inLine(a.locks, 'aborted', 0)
})

test('two thousand fair waiters of one process are handed the lock one after the other', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('many').acquire({ ttl: 120_000 })
  let served = 0
  const enough = new AbortController()
  setMaxListeners(0, enough.signal)
  const waits = Array.from({ length: 2_000 }, async () => {
    const own = await b.locks
      .mutex('many')
      .acquire({ fair: true, wait: 120_000, signal: enough.signal })
      .catch((error: unknown) => {
        if (!enough.signal.aborted) throw error
      })
    if (own === undefined) return
    served++
    await own.release()
  })
  const standing = `select count(*)::int as n from holdfast_waiters where name = 'many' and channel is not null`
  await until(async () => (await count(standing)) === 2_000, { within: 60_000 })
  const began = performance.now()
  await lease.release()
  await until(() => served >= 500, { within: 20_000, what: '500 hand-overs' })
  t.diagnostic(`500 hand-overs in ${performance.now() - began} ms`)
  enough.abort()
  await Promise.all(waits)
})

test('a thousand readers of one name are renewed in a moment', async (t) => {
  const { locks } = peer(t, server.port)
  const lock = locks.readWrite('read')
  const leases = await Promise.all(
    Array.from({ length: 1_000 }, () => lock.read.acquire({ fair: true, ttl: 600_000, wait: 120_000 })),
  )
  // The least of five: the machine may be paused during one or another.
  let took = Number.POSITIVE_INFINITY
  for (let round = 0; round < 5; round++) {
    const began = performance.now()
    await Promise.all(leases.map((lease) => lease.extend()))
    took = Math.min(took, performance.now() - began)
  }
  assert.ok(took < 2_000, `${took} ms`)
  t.diagnostic(`${took} ms`)
  await Promise.all(leases.map((lease) => lease.release()))
})

test('a waiter whose channel comes up while its request is unanswered sends no second one', async (t) => {
  const other = peer(t, server.port)
  const busy = await other.locks.mutex('busy').acquire()
  await other.locks.mutex('kept').run(() => undefined)
  const sql = postgresJs({
    host: '127.0.0.1',
    port: server.port,
    user: 'postgres',
    database: 'postgres',
    max: 3,
  })
  let unanswered = 0
  let most = 0
  const unsafe = (text: string, values?: never[], options?: object) => {
    const query = sql.unsafe(text, values, options)
    if (!text.includes('holdfast_acquire') || values?.[0] !== 'kept') return query
    most = Math.max(most, ++unanswered)
    const done = () => void unanswered--
    query.then(done, done)
    return query
  }
  const pool = Object.assign(() => undefined, { unsafe, listen: sql.listen, options: sql.options })
  const locks = createLocks(postgres({ pool: pool as unknown as PostgresPool, commandTimeout: 30_000 }))
  t.after(() => locks.close().then(() => sql.end()))
  const keeper = postgresJs({
    host: '127.0.0.1',
    port: server.port,
    user: 'postgres',
    database: 'postgres',
    max: 1,
  })
  t.after(() => keeper.end())
  let asked: Promise<Lease> | undefined
  await keeper.begin(async (row) => {
    await row`select from holdfast_locks where name = 'kept' for update`
    asked = locks.mutex('kept').acquire()
    await until(() => unanswered > 0)
    // It waits, so it opens the channel.
    locks
      .mutex('busy')
      .acquire()
      .catch(() => undefined)
    const channels = `select count(*)::int as n from pg_stat_activity where query ilike 'listen%'`
    await until(async () => (await count(channels)) > 0)
    await new Promise((resolve) => setTimeout(resolve, 50))
  })
  await (await asked)?.release()
  assert.equal(most, 1)
  await busy.release()
})

after(leakCheck)
