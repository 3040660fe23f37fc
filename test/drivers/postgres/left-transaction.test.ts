// The application has left connections of its postgres.js instance inside a transaction, on which the locks must do nothing.
import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import { createLocks, type Lease, type Locks } from 'holdfast'
import { type PostgresOptions, postgres } from 'holdfast/postgres'
import type postgresJs from 'postgres'
import { leakCheck } from '../../support/leaks.js'
import { startProxy } from '../../support/proxy.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'

const server = await startPostgres()
after(() => server.stop())
before(() => server.sql('create table written (id int)'))

type Sql = ReturnType<typeof postgresJs>
const inside = { code: 'BACKEND', message: /inside a transaction/ }

async function start(
  t: TestContext,
  { module = 'postgres', port = server.port, wrap = (sql: Sql): unknown => sql, ...config }: Config = {},
  options: Partial<PostgresOptions> = {},
) {
  const { default: library } = (await import(module)) as { default: typeof postgresJs }
  const sql = library({
    ...{ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' },
    ...{ max: 1, max_lifetime: null, onnotice: () => undefined, fetch_types: false, ...config },
  })
  const locks = createLocks(postgres({ pool: wrap(sql) as never, ...options })) as unknown as Locks
  t.after(async () => {
    await locks.close()
    await sql.end({ timeout: 1 })
  })
  return { sql, locks }
}
interface Config {
  readonly module?: string
  readonly max?: number
  readonly port?: number
  readonly wrap?: (sql: Sql) => unknown
}

/** The only connection of the instance is left like this. */
async function leave({ sql }: { readonly sql: Sql }, ...statements: string[]): Promise<void> {
  for (const statement of statements) await sql.unsafe(statement).catch(() => undefined)
}

/** A release that was refused can be tried again. */
const released = (lease: Lease) => until(async () => (await lease.release()) === 'released')

const leftovers = [
  ['begin'],
  ['begin', 'insert into written values (1)'],
  ['begin isolation level serializable', 'select 1'],
  ['begin', 'select 1 / 0'],
]
for (const strategy of ['row', 'session'] as const) {
  for (const left of leftovers) {
    test(`${strategy}: a connection left in a transaction (${left.join('; ')}) holds nothing`, async (t) => {
      const [a, b] = [await start(t, {}, { strategy }), await start(t, {}, { strategy })]
      const name = `${strategy} ${left.join()}`
      await a.locks.mutex(name).run(() => undefined)
      await leave(a, ...left)
      await assert.rejects(a.locks.mutex(name).acquire(), inside)
      await assert.rejects(a.locks.mutex(name).tryAcquire(), inside)
      await b.locks.mutex(name).run(() => undefined)
      await leave(a, 'rollback')
      const lease = await a.locks.mutex(name).acquire()
      assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
      assert.equal(await lease.release(), 'released')
    })
  }
}

test('what the transaction has done is left as it is, and can be committed', async (t) => {
  const a = await start(t)
  await a.locks.mutex('left').run(() => undefined)
  await leave(a, 'begin', 'insert into written values (42)')
  await assert.rejects(a.locks.mutex('left').acquire(), inside)
  await leave(a, 'commit')
  assert.equal((await a.sql`select id from written where id = 42`).length, 1)
  await a.locks.mutex('left').run(() => undefined)
})

test('a hold is not renewed inside a transaction, and lasts on after its end', async (t) => {
  const [a, b] = [await start(t), await start(t)]
  const lease = await a.locks.mutex('kept').acquire({ ttl: 600_000 })
  await leave(a, 'begin')
  await assert.rejects(lease.extend(), inside)
  assert.equal(await b.locks.mutex('kept').tryAcquire(), undefined)
  await leave(a, 'commit')
  await lease.extend()
  assert.equal(await lease.release(), 'released')
  await b.locks.mutex('kept').run(() => undefined)
})

test('a waiter that meets a transaction leaves nothing in the queue that keeps others out', async (t) => {
  const [a, b] = [await start(t), await start(t)]
  const mutex = b.locks.mutex('left in line')
  const lease = await mutex.acquire()
  const refused = assert.rejects(a.locks.mutex('left in line').acquire({ ttl: 600_000 }), inside)
  // With the channel the server lets it in without being asked.
  const told = `select from holdfast_waiters where name = 'left in line' and channel is not null`
  await until(async () => (await server.sql(told)).length === 1)
  await leave(a, 'begin')
  await lease.release()
  await refused
  await leave(a, 'rollback')
  await mutex.run(() => undefined, { wait: 10_000 })
})

const wraps: Readonly<Record<string, (sql: Sql, ...given: Parameters<Sql['unsafe']>) => unknown>> = {
  'gives plain promises': async (sql, ...given) => await sql.unsafe(...given),
  'looks at each query': (sql, ...given) => {
    const query = sql.unsafe(...given)
    query.catch(() => undefined)
    return query
  },
  'passes on no options': (sql, text, values) => sql.unsafe(text, values),
  'looks at each query later': (sql, ...given) => {
    const query = sql.unsafe(...given)
    setImmediate(() => query.catch(() => undefined))
    return query
  },
}
for (const [what, send] of Object.entries(wraps)) {
  test(`a wrapped instance with one connection that ${what} holds nothing, either`, async (t) => {
    const wrap = (sql: Sql) => {
      const unsafe = (...given: Parameters<Sql['unsafe']>) => send(sql, ...given)
      return Object.assign(() => undefined, { unsafe, listen: sql.listen, options: sql.options })
    }
    const [a, b] = [await start(t, { wrap }), await start(t)]
    await a.locks.mutex(what).run(() => undefined)
    await leave(a, 'begin')
    await assert.rejects(a.locks.mutex(what).acquire(), inside)
    await b.locks.mutex(what).run(() => undefined)
    await leave(a, 'rollback')
    const lease = await a.locks.mutex(what).acquire()
    assert.equal(await b.locks.mutex(what).tryAcquire(), undefined)
    assert.equal(await lease.release(), 'released')
  })
}

for (const strategy of ['row', 'session'] as const) {
  test(`${strategy}: an acquire that crosses the end of a transaction left idle for too long is sent again`, async (t) => {
    const cable = await startProxy({ port: server.port })
    t.after(() => cable.stop())
    const a = await start(t, { port: cable.port }, { strategy })
    const mutex = a.locks.mutex(`${strategy} crossed`)
    await mutex.run(() => undefined)
    // The server ends the connection with 25P03, and says so while the statement is on its way.
    cable.down.hold('idle-in-transaction timeout')
    await leave(a, 'set idle_in_transaction_session_timeout to 100', 'begin')
    await cable.down.holding()
    cable.up.hold()
    const waits = mutex.acquire({ wait: 20_000 })
    await cable.up.holding()
    cable.down.pass()
    cable.up.pass()
    assert.equal(await (await waits).release(), 'released')
  })
}

test('tables are not created inside a transaction', async (t) => {
  const options = { schema: 'later' }
  const [a, b] = [await start(t, {}, options), await start(t, {}, options)]
  await leave(a, 'begin')
  await assert.rejects(a.locks.mutex('later').acquire(), inside)
  await b.locks.mutex('later').run(() => undefined)
  await leave(a, 'rollback')
  await a.locks.mutex('later').run(() => undefined)
})

for (const module of ['postgres-3.0', 'postgres-3.4.5', 'postgres']) {
  test(`${module}: the only connection holds nothing while it is inside a transaction`, async (t) => {
    const [a, b] = [await start(t, { module }), await start(t)]
    await a.locks.mutex(module).run(() => undefined)
    await leave(a, 'begin')
    await assert.rejects(a.locks.mutex(module).acquire(), inside)
    await b.locks.mutex(module).run(() => undefined)
    await leave(a, 'commit')
    const lease = await a.locks.mutex(module).acquire()
    assert.equal(await b.locks.mutex(module).tryAcquire(), undefined)
    assert.equal(await lease.release(), 'released')
  })

  test(`${module}: of several connections, one inside a transaction holds nothing, and the others lock`, async (t) => {
    const [a, b] = [await start(t, { module, max: 3 }), await start(t)]
    const mutex = a.locks.mutex(`${module} of several`)
    // More than one connection is open when one of them is left.
    await Promise.all(['', '', ''].map(() => a.sql`select pg_sleep(0.01)`))
    // With several, postgres.js reports that this is unsafe, and the transaction is open all the same.
    await leave(a, 'begin')
    for (let held = 0; held < 10; ) {
      const lease = await mutex
        .tryAcquire()
        .catch((error: Error) => void assert.match(error.message, inside.message))
      if (lease === undefined) continue
      assert.equal(await b.locks.mutex(`${module} of several`).tryAcquire(), undefined)
      await released(lease)
      held++
    }
  })
}

after(leakCheck)
