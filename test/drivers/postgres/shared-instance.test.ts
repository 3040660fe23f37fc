// The instance of postgres.js is the application's own: it leaves settings changed on its connections, and its options change what
// queries send and return.
// Second tier because it tries many settings and options; left-transaction.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, before, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { inTransaction, type PostgresOptions, postgres, tryInTransaction } from 'holdfast/postgres'
import postgresJs from 'postgres'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'

const server = await startPostgres()
after(() => server.stop())

const settingsOf = (config: object = {}) => ({
  ...{ host: '127.0.0.1', port: server.port, user: 'postgres', database: 'postgres' },
  ...{ max: 1, max_lifetime: null, onnotice: () => undefined, ...config },
})

function locksOver(t: TestContext, sql: ReturnType<typeof postgresJs>, options: PostgresOptions): Locks {
  const locks = createLocks(postgres(options)) as unknown as Locks
  t.after(async () => {
    await locks.close()
    await sql.end({ timeout: 1 })
  })
  return locks
}

function start(t: TestContext, config: object = {}, options: Partial<PostgresOptions> = {}) {
  const sql = postgresJs(settingsOf(config))
  return { sql, locks: locksOver(t, sql, { pool: sql as never, ...options }) }
}
type Peer = ReturnType<typeof start>

/** The only connection of the instance is left like this. */
async function leave({ sql }: Peer, ...statements: string[]): Promise<void> {
  const connection = await sql.reserve()
  for (const statement of statements) await connection.unsafe(statement).catch(() => undefined)
  connection.release()
}

before(async () => {
  await server.sql('create schema hostile')
  await server.sql("create type hostile.text as enum ('a')")
  await server.sql("create type hostile.int8 as enum ('a')")
})

/** Every kind of answer: a grant, a refusal, a queue, a list, a cell. */
async function lockAndWait(a: Locks, b: Locks, name: string): Promise<void> {
  for (const [mine, other] of [
    [a, b],
    [b, a],
  ] as const) {
    const lease = await mine.mutex(name).acquire()
    assert.equal(await other.mutex(name).tryAcquire(), undefined)
    const next = other.mutex(name).acquire()
    await until(async () => (await mine.inspect(name)).waiters.length === 1)
    assert.equal((await other.inspect(name)).holders[0]?.token, lease.token)
    assert.equal((await mine.list(name)).length, 1)
    await lease.extend()
    assert.equal(await lease.release(), 'released')
    const second = await next
    assert.ok(second.token > lease.token)
    assert.equal(await second.release(), 'released')
  }
}

const settings = [
  'set search_path = hostile, pg_catalog, public',
  "set search_path = ''",
  "set timezone = 'Asia/Kolkata'",
  "set datestyle = 'German, DMY'",
  'set intervalstyle = iso_8601',
  'set bytea_output = escape',
  'set extra_float_digits = -15',
  'set standard_conforming_strings = off',
  'set row_security = off',
  'set lock_timeout = 1',
  "set default_transaction_isolation = 'serializable'",
]
for (const strategy of ['row', 'session'] as const) {
  for (const setting of strategy === 'row' ? settings : settings.slice(0, 2)) {
    test(`${strategy}: a connection left after ${setting} locks as any other`, async (t) => {
      const [a, b] = [start(t, {}, { strategy }), start(t, {}, { strategy })]
      await leave(a, setting)
      await lockAndWait(a.locks, b.locks, `it's ${strategy} \\ ${setting}`)
      if (strategy === 'row') assert.equal(await a.locks.once(setting, () => 'done'), 'done')
    })
  }
}

for (const strategy of ['row', 'session'] as const) {
  test(`${strategy}: a connection left with another client_encoding lets no second holder in`, async (t) => {
    const [a, b] = [start(t, {}, { strategy }), start(t, {}, { strategy })]
    const name = `Zürich ${strategy}`
    await a.locks.mutex(name).run(() => undefined)
    const lease = await b.locks.mutex(name).acquire()
    await leave(a, "set client_encoding = 'LATIN1'")
    const refused = { code: 'BACKEND', message: /client_encoding that is not UTF8.*RESET client_encoding/ }
    await assert.rejects(a.locks.mutex(name).tryAcquire(), refused)
    await assert.rejects(a.locks.mutex(name).acquire(), refused)
    await assert.rejects(a.locks.inspect(name), refused)
    assert.equal(await lease.release(), 'released')
    await leave(a, 'reset client_encoding')
    await lockAndWait(a.locks, b.locks, name)
  })
}

test('tables and functions that a connection with a hostile search_path creates are those of any other', async (t) => {
  const [a, b] = [start(t, {}, { schema: 'made' }), start(t, {}, { schema: 'made' })]
  await leave(a, 'set search_path = hostile, pg_catalog, public')
  await lockAndWait(a.locks, b.locks, 'made')
})

const upper = (value: unknown) => (typeof value === 'string' ? value.toUpperCase() : value)
const changed = {
  to: 25,
  from: [25],
  serialize: (value: unknown) => `${value}?`,
  parse: (value: string) => `${value}!`,
}
const numbers = (to: number) => ({ to, from: [to], serialize: () => '1', parse: () => 1 })
const transforms: Readonly<Record<string, object>> = {
  'transform.value': { transform: { value: { from: upper } } },
  'transform.column': { transform: { column: { from: () => 'x' } } },
  'transform.row': { transform: { row: { from: (row: object) => ({ ...row }) } } },
  'transform.undefined': { transform: { undefined: null } },
  types: { types: { changed } },
  'types for every parameter': {
    types: { none: numbers(0), int: numbers(23), bigint: numbers(20), json: numbers(114), text: changed },
  },
}
for (const strategy of ['row', 'session'] as const) {
  for (const [option, config] of Object.entries(transforms)) {
    test(`${strategy}: ${option} of the instance changes nothing`, async (t) => {
      const [a, b] = [start(t, config, { strategy }), start(t, {}, { strategy })]
      await lockAndWait(a.locks, b.locks, `${strategy} ${option}`)
      if (strategy === 'row') assert.equal(await a.locks.once(option, () => 'done'), 'done')
    })
  }
}

for (const strategy of ['row', 'session'] as const) {
  test(`${strategy}: a wrapped instance that gives plain promises makes its tables and locks as any other`, async (t) => {
    const wrap = () => {
      const sql = postgresJs(settingsOf())
      const unsafe = async (...given: Parameters<typeof sql.unsafe>) => await sql.unsafe(...given)
      const pool = Object.assign(() => undefined, { unsafe, listen: sql.listen, options: sql.options })
      return locksOver(t, sql, { pool: pool as never, strategy, schema: `wrapped_${strategy}` })
    }
    await lockAndWait(wrap(), wrap(), 'wrapped')
  })
}

for (const option of ['transform.value', 'types', 'types for every parameter']) {
  test(`inTransaction over an instance with ${option} locks as any other`, async (t) => {
    const [a, b] = [start(t, transforms[option]), start(t)]
    await a.sql.begin(async (tx) => {
      assert.ok((await inTransaction(tx as never, 'transformed')).token > 0)
      const second = await b.sql.begin((other) => tryInTransaction(other as never, 'transformed'))
      assert.equal(second, undefined)
    })
  })
}

test('types that change texts of the type unknown are refused by name', (t) => {
  const sql = postgresJs(settingsOf({ types: { mine: { ...changed, to: 705, from: [] } } }))
  t.after(() => sql.end({ timeout: 1 }))
  assert.throws(() => postgres({ pool: sql as never }), {
    name: 'TypeError',
    message: /entry mine in the types/,
  })
})

test('a transform.row that takes the answer away is named', async (t) => {
  const { locks } = start(t, { transform: { row: { from: () => ({}) } } })
  await assert.rejects(locks.mutex('taken away').acquire(), { code: 'BACKEND', message: /transform\.row/ })
})

after(leakCheck)
