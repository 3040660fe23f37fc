// An instance of postgres.js listens on a connection of its own, which the server may refuse for as long as it likes.
// Second tier because the server refuses for seconds; subscription.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks } from 'holdfast'
import { type PostgresOptions, postgres } from 'holdfast/postgres'
import postgresJs from 'postgres'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'

const server = await startPostgres()
after(() => server.stop())

/** Over an instance whose role may have `most` connections. */
async function start(t: TestContext, role: string, most: number, options: Partial<PostgresOptions>) {
  await server.sql(`create role ${role} login superuser`)
  const limit = (most: number) => server.sql(`alter role ${role} nosuperuser connection limit ${most}`)
  await server.sql(`grant all on schema public to ${role}`)
  const sql = postgresJs({
    ...{ host: '127.0.0.1', port: server.port, user: role, database: 'postgres' },
    ...{ max: 1, max_lifetime: null, backoff: () => 0.05, fetch_types: false },
  })
  await limit(most)
  let listens = 0
  const { listen } = sql
  sql.listen = (...given) => {
    listens++
    return listen(...given)
  }
  const locks = createLocks(postgres({ pool: sql as never, ...options }))
  t.after(async () => {
    await locks.close()
    await sql.end({ timeout: 1 })
  })
  return { locks, limit, listens: () => listens }
}

const refusals = () => server.log().match(/too many connections for role/g)?.length ?? 0

for (const strategy of ['row', 'session'] as const) {
  test(`${strategy}: locks work by polling while the connection to listen on is refused`, async (t) => {
    const options = { strategy, schema: `of_${strategy}` }
    await server.sql(`create schema of_${strategy}`)
    await server.sql(`grant all on schema of_${strategy} to public`)
    const [a, b] = [
      await start(t, `a_${strategy}`, 1, options),
      await start(t, `b_${strategy}`, -1, { ...options, create: false }),
    ]
    await a.locks.mutex('warm').run(() => undefined)
    await server.sql(`grant all on all tables in schema of_${strategy} to public`)
    await server.sql(`alter schema of_${strategy} owner to a_${strategy}`)
    const lease = await b.locks.mutex('polled').acquire()
    const waits = a.locks.mutex('polled').acquire()
    const before = refusals()
    await until(() => refusals() > before + 10, { what: 'some refusals' })
    assert.equal(a.listens(), 1, 'it adds a listener with each call')
    await lease.release()
    await (await waits).release()
    const [next, later] = [await b.locks.mutex('told').acquire(), a.locks.mutex('told').acquire()]
    await a.limit(-1)
    const told = `select from of_${strategy}.holdfast_waiters where name like '%told' and channel is not null`
    await until(async () => (await server.sql(told)).length === 1, { what: 'the channel' })
    await next.release()
    await (await later).release()
  })
}

after(leakCheck)
