// Applications have their clients convert values: JSON in text to objects, bigints to BigInt, everything to text. A repeated `once` returns
// the same result whatever they do, or says that it cannot read it.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { mariadb, mysql2, once, onceSchema, pg, postgresJs, type Sql } from 'holdfast/guard'
import { createConnection as connectMariadb } from 'mariadb'
import { createConnection as connectMysql2 } from 'mysql2/promise'
import { Client, types } from 'pg'
import postgres from 'postgres'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'

/** As applications have it that keep JSON in text: what looks like JSON becomes a value, everything else stays. */
function parsed(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text)
  } catch {
    return text
  }
}

const results = [
  { paid: true },
  [1, '2'],
  '5',
  '"5"',
  'true',
  '{"a":1}',
  '',
  5,
  true,
  null,
  undefined,
  '=',
  'ä中',
]

async function assertOnceRepeats(db: Sql, from: string): Promise<void> {
  for (const [at, result] of results.entries()) {
    const key = `${from} ${at}`
    for (const repeated of [false, true])
      assert.deepEqual(await once(db, key, () => result), { result, repeated }, key)
  }
}

interface Field {
  readonly type: string
  string(): string | null
}
const castTexts =
  (convert: (text: string | null) => unknown) =>
  (field: Field, next: () => unknown): unknown =>
    /STRING|BLOB|CHAR/.test(field.type) ? convert(field.string()) : next()

for (const flavour of ['mysql', 'mariadb'] as const) {
  describe(`converted values from ${flavour}`, () => {
    let server: Awaited<ReturnType<typeof startMysql>>
    const overMysql2 = async (options: object, use: (db: Sql) => Promise<void>) => {
      const connection = await connectMysql2({ uri: server.url, ...options })
      await use(mysql2(connection))
      await connection.end()
    }
    const overMariadb = async (options: object, use: (db: Sql) => Promise<void>) => {
      const { hostname: host, port, username: user } = new URL(server.url)
      const where = { host, port: Number(port), user, database: 'holdfast', allowPublicKeyRetrieval: true }
      const connection = await connectMariadb({ ...where, ...options })
      await use(mariadb(connection))
      await connection.end()
    }
    before(async () => {
      server = await startMysql({ flavour })
      await overMysql2({}, async (db) => {
        for (const text of onceSchema(db.dialect)) await db.run(text, [])
      })
    })
    after(() => server.stop())

    const conversions: Readonly<Record<string, object>> = {
      'bigints, dates and JSON as text': {
        supportBigNumbers: true,
        bigNumberStrings: true,
        dateStrings: true,
        jsonStrings: true,
      },
      'everything as numbers that can be': { decimalNumbers: true, bigIntAsNumber: true, autoJsonMap: false },
      'a typeCast that parses JSON': { typeCast: castTexts(parsed) },
      'a typeCast that gives no strings but bytes': {
        typeCast: castTexts((text) => (text === null ? null : Buffer.from(text))),
      },
    }
    for (const [what, options] of Object.entries(conversions)) {
      test(`mysql2 with ${what}: once repeats the result`, () =>
        overMysql2(options, (db) => assertOnceRepeats(db, `mysql2 ${what}`)))
      test(`mariadb with ${what}: once repeats the result`, () =>
        overMariadb(options, (db) => assertOnceRepeats(db, `mariadb ${what}`)))
    }

    test('a record that the client makes unreadable is an error that names the table, and nothing is done', async () => {
      const typeCast = castTexts((converted) => ({ converted }))
      const unreadable = { name: 'TypeError', message: /^holdfast_once: the client has converted the text/ }
      let done = 0
      const use = (db: Sql) =>
        assert.rejects(
          once(db, 'unreadable', () => ++done),
          unreadable,
        )
      await overMysql2({ typeCast }, use)
      await overMariadb({ typeCast }, use)
      assert.equal(done, 0)
    })
  })
}

describe('converted values from PostgreSQL', () => {
  let server: Awaited<ReturnType<typeof startPostgres>>
  before(async () => {
    server = await startPostgres()
    for (const text of onceSchema('postgres')) await server.sql(text)
  })
  after(() => server.stop())

  const ofPg: Readonly<Record<string, (oid: number) => ((text: string) => unknown) | undefined>> = {
    'integers as BigInt': (oid) => (oid === 20 || oid === 21 ? BigInt : undefined),
    'text parsed as JSON': (oid) => ([25, 1042, 1043].includes(oid) ? parsed : undefined),
    'no conversion at all': () => (text) => text,
  }
  for (const [what, parserOf] of Object.entries(ofPg)) {
    test(`pg with ${what}: once repeats the result`, async () => {
      const getTypeParser = (oid: number, format?: 'text') =>
        parserOf(oid) ?? types.getTypeParser(oid, format)
      const client = new Client({ connectionString: server.url, types: { getTypeParser } as never })
      await client.connect()
      await assertOnceRepeats(pg(client), `pg ${what}`)
      await client.end()
    })
  }

  const parseText = (value: unknown) => (typeof value === 'string' ? parsed(value) : value)
  const ofPostgresJs: Readonly<Record<string, object>> = {
    'bigints as BigInt': { types: { bigint: postgres.BigInt } },
    'columns in camel case': { transform: postgres.camel },
    'values parsed as JSON': { transform: { value: { from: parseText } } },
  }
  for (const [what, options] of Object.entries(ofPostgresJs)) {
    test(`postgres.js with ${what}: once repeats the result`, async () => {
      const sql = postgres(server.url, { max: 1, onnotice: () => undefined, ...options })
      await assertOnceRepeats(postgresJs(sql), `postgres.js ${what}`)
      await sql.end()
    })
  }
})

after(leakCheck)
