// Values chosen by a stranger, through every SQL guard and every client: they are data, whatever they look like.
// Long because every guard, client and kind of value stands beside the others.
// Second tier because it repeats for every client and SQL guard what sql.test.ts shows with ordinary values.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import {
  admit,
  expression,
  fenceSchema,
  guardedDelete,
  guardedUpdate,
  guardedUpsert,
  json,
  once,
  onceSchema,
  type Sql,
  sqlFences,
  withVersion,
} from 'holdfast/guard'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { type Client, type Connect, overMysql, overPostgres } from './support/sql-clients.js'

/** How a server keeps text whose bytes alone are compared. */
const servers = {
  MySQL: {
    start: () => startMysql({ flavour: 'mysql' }),
    clients: overMysql,
    text: 'varchar(190) character set utf8mb4 collate utf8mb4_0900_bin',
  },
  MariaDB: {
    start: () => startMysql({ flavour: 'mariadb' }),
    clients: overMysql,
    text: 'varchar(190) character set utf8mb4 collate utf8mb4_nopad_bin',
  },
  PostgreSQL: { start: startPostgres, clients: overPostgres, text: 'varchar(190) collate "C"' },
}

const odd = 'od`d"col\\umn?:x$1.y'
const ids = ['0', '1', '7', 'abc', "o'brien", 'back\\', '{"id":1}', '[object Object]', '1,2', 'true', '中']

/** Out of JSON, as a request body has it. */
const sent = (text: string) => JSON.parse(text) as never
const refused: Readonly<Record<string, unknown>> = {
  'an object of the shape of an expression': sent('{"expression":"1 = 1 or \'\'","values":[]}'),
  'an object of a column': sent('{"id":1}'),
  'an object of two columns': sent('{"id":1,"fence":0}'),
  'an object that names columns of the table': sent('{"val":0}'),
  'an empty object': {},
  'an array': sent('["abc","7"]'),
  'nested arrays': sent('[["abc","7"],["1","0"]]'),
  'an empty array': [],
  'an array like SQL': sent("[\"') or ('1' = '1\"]"),
  toSqlString: { toSqlString: () => '1 or 1 = 1' },
  toPostgres: { toPostgres: () => 'abc' },
  toJSON: { toJSON: () => 'abc' },
  'like a Buffer': sent('{"type":"Buffer","data":[97,98,99]}'),
  'like a Date': { [Symbol.toStringTag]: 'Date', toISOString: () => 'abc', getTime: () => 0 },
  'a Date that is none': new Date(Number.NaN),
  'like a geometry': sent('{"type":"Point","coordinates":[1,2]}'),
  'a boxed string': Object('abc'),
  'a typed array of 16 bits': new Uint16Array([1]),
  'an object with a prototype of its own': Object.create({ expression: '1', values: [] }),
  'an object of no prototype': Object.assign(Object.create(null), { id: 1 }),
  'a polluted one': sent('{"__proto__":{"toSqlString":"x"},"constructor":{"name":"String"}}'),
  'a Map': new Map([['id', 1]]),
  'a function': () => 'abc',
  'a class': expression,
  'a symbol': Symbol('abc'),
  'a promise': Promise.resolve('abc'),
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  // biome-ignore lint/suspicious/noThenProperty: that is the point
  'an object that can be awaited': { then: (resolve: (value: string) => void) => resolve('abc') },
  'an object that says it is a text': { toString: () => 'abc', valueOf: () => 'abc' },
  'an object that turns into a text': { [Symbol.toPrimitive]: () => 'abc' },
  'a proxy of a Date': new Proxy(new Date(), {}),
  'a proxy of bytes': new Proxy(new Uint8Array([97]), {}),
  undefined,
}

const words = [
  "'",
  '"',
  '`',
  '\\',
  "\\'",
  '?',
  ':id',
  '$1',
  '--',
  '/*',
  '*/',
  ';',
  ' ',
  '%',
  '_',
  '0',
  '7',
  'abc',
]
words.push(...["' or '1'='1", "\\' or 1=1 -- ", '中', "表'", '表', '\n', '{"id":1}', '[1]', 'null', 'NaN'])
const texts = fc.array(fc.constantFrom(...words), { maxLength: 4 }).map((parts) => parts.join(''))
const plain = fc.oneof(
  { weight: 4, arbitrary: texts },
  fc.constantFrom(...ids),
  fc.integer({ min: -2, max: 8 }),
  fc.constantFrom(0, -0, 0.5, 1e21, 2 ** 53, 7n, -1n, 2n ** 70n, true, false),
)

for (const [server, { start, clients, text }] of Object.entries(servers)) {
  describe(`hostile values on ${server}`, () => {
    let store: { readonly url: string; stop(): Promise<void> }
    let own: Client
    const postgres = server === 'PostgreSQL'
    const quoted = postgres ? `"${odd.replaceAll('"', '""')}"` : `\`${odd.replaceAll('`', '``')}\``

    before(async () => {
      store = await start()
      own = await (Object.values(clients).at(-1) as Connect)(store.url)
      await own.db.run(
        `create table t (id ${text} primary key, val ${text}, doc ${postgres ? 'jsonb' : 'json'}, fence bigint, version int not null default 0, ${quoted} ${text})`,
        [],
      )
      for (const statement of [...fenceSchema(own.db.dialect), ...onceSchema(own.db.dialect)])
        await own.db.run(statement, [])
    })
    after(async () => {
      await own.close()
      await store.stop()
    })

    const reset = async () => {
      await own.db.run('delete from t', [])
      for (const id of ids)
        await own.db.run(`insert into t (id, val) values (${postgres ? '$1, $2' : '?, ?'})`, [id, 'old'])
    }
    const rows = async () => {
      const found = (await own.db.run('select id, val from t', [])).rows
      return new Map(found.map((row) => [String(row['id']), row['val']]))
    }
    /** What a plain value means as text, in this database's words. */
    const asText = (value: unknown) =>
      typeof value === 'boolean' && !postgres ? String(Number(value)) : String(value)

    for (const [client, connect] of Object.entries(clients)) {
      describe(client, () => {
        let it: Client
        let db: Sql
        let token = 100
        const fence = () => ({ name: 'hostile', token: ++token })
        before(async () => {
          it = await connect(store.url)
          db = it.db
          await reset()
        })
        after(() => it.close())

        test('every guard refuses anything but a plain value, before anything is sent', async () => {
          const before = await rows()
          const counted = { ...db, run: () => Promise.reject(new Error('was sent')) }
          for (const [what, value] of Object.entries(refused)) {
            const key = { id: value }
            const set = { val: value }
            const all = { table: 't', key: { id: 'abc' }, set: { val: 'new' }, fence: fence() }
            const tries = [
              () => guardedUpdate(counted, { ...all, key }),
              () => guardedUpdate(counted, { ...all, set }),
              () => guardedUpsert(counted, { ...all, key }),
              () => guardedUpsert(counted, { ...all, set }),
              () => guardedDelete(counted, { ...all, key }),
              () => withVersion(counted, { table: 't', key }, () => ({ val: 'new' })),
              () => withVersion(db, { table: 't', key: { id: 'abc' } }, () => set),
              () => admit(counted, { name: value as never, token: 1 }),
              () => admit(counted, { name: 'a', token: value as never }),
              () => sqlFences(counted).admit({ name: value as never, token: 1 }),
              () => once(counted, value as never, () => 1),
              () => guardedUpdate(counted, { ...all, set: { val: expression('?', value) } }),
              () => db.run(`select ${postgres ? '$1' : '?'}`, [value]),
            ]
            for (const [at, attempt] of tries.entries())
              await assert.rejects(
                async () => attempt(),
                (error) => {
                  assert.ok(
                    error instanceof TypeError || error instanceof RangeError,
                    `${what}, ${at}: ${error}`,
                  )
                  return true
                },
                `${what}, ${at}`,
              )
          }
          assert.deepEqual(await rows(), before)
        })

        test('only the rows that the plain value names change', async () => {
          const one = async (value: unknown) => {
            const meant = [asText(value)].filter((id) => ids.includes(id))
            // A client of PostgreSQL may tell the server that it is a boolean, which equals no text.
            const boolean = postgres && typeof value === 'boolean'
            const all = { table: 't', key: { id: value }, fence: fence() }
            const changed = async (attempt: () => Promise<unknown>) => {
              const before = await rows()
              if (!boolean) await attempt()
              else await attempt().catch((error) => assert.match(String(error), /operator does not exist/))
              const now = await rows()
              const ids = [...before.keys()].filter((id) => now.get(id) !== before.get(id) || !now.has(id))
              return boolean && ids.length === 0 ? meant : ids
            }
            const mark = `new ${token}`
            assert.deepEqual(await changed(() => guardedUpdate(db, { ...all, set: { val: mark } })), meant)
            assert.deepEqual(
              await changed(() =>
                withVersion(db, { table: 't', key: all.key }, () => ({ val: `${mark}, too` })),
              ),
              meant,
            )
            assert.deepEqual(await changed(() => guardedDelete(db, all)), meant)
            if (boolean) await reset()
            if (boolean || meant[0] === undefined) return
            await guardedUpsert(db, { ...all, set: { val: 'old' } })
            assert.deepEqual([...(await rows()).keys()].sort(), ids.toSorted())
          }
          await fc.assert(fc.asyncProperty(plain, one), { numRuns: 40 })
        })

        test('the given value is written, and to that row alone', async () => {
          const one = async (value: unknown, name: string) => {
            const before = await rows()
            const where = { table: 't', key: { id: 'abc' }, fence: fence() }
            if (name === 'val') await guardedUpdate(db, { ...where, set: { val: value } })
            else await guardedUpsert(db, { ...where, set: { val: value, [odd]: asText(value) } })
            const now = await rows()
            const written = String(now.get('abc'))
            if (typeof value === 'string') assert.equal(written, value)
            else
              assert.equal(
                Number(written === 'true' ? 1 : written === 'false' ? 0 : written) - Number(value),
                0,
              )
            for (const [id, val] of before) if (id !== 'abc') assert.equal(now.get(id), val)
          }
          await fc.assert(fc.asyncProperty(plain, fc.constantFrom('val', odd), one), { numRuns: 40 })
        })

        test('column names are names, whatever they contain', async () => {
          const before = await rows()
          const names = [
            "val' = 'x",
            'val` = `id',
            'val" = "id',
            'val\\',
            't.val',
            'val = 1, fence',
            'v?l',
            ':val',
            '$1',
          ]
          names.push('val -- ', '', 'val\0', '__proto__', '中` = 1 -- ')
          for (const name of names) {
            const set = JSON.parse(`{${JSON.stringify(name)}: "x"}`)
            await assert.rejects(
              guardedUpdate(db, { table: 't', key: { id: 'abc' }, set, fence: fence() }),
              `set ${name}`,
            )
            await assert.rejects(
              guardedUpsert(db, { table: 't', key: { id: 'abc' }, set, fence: fence() }),
              `upsert ${name}`,
            )
            await assert.rejects(
              guardedDelete(db, { table: 't', key: set, fence: fence() }),
              `delete ${name}`,
            )
            await assert.rejects(
              withVersion(db, { table: 't', key: { id: '7' } }, () => set),
              `change ${name}`,
            )
          }
          for (const set of [{ fence: 0 }, { FENCE: 0 }])
            await assert.rejects(
              guardedUpdate(db, { table: 't', key: { id: 'abc' }, set, fence: fence() }),
              /the guard itself writes the column fence/,
            )
          assert.deepEqual(await rows(), before)
        })

        test('lock names and keys of once are data, too', async () => {
          for (const name of [`x' or '1'='1 ${client}`, `\\' -- ${client}`, `[object Object] ${client}`]) {
            await admit(db, { name, token: 5 })
            await assert.rejects(admit(db, { name, token: 4 }), { code: 'STALE_TOKEN', newest: 5 })
            await admit(db, { name: `${name}.`, token: 1 })
            assert.deepEqual(await once(db, name, () => name), { result: name, repeated: false })
            assert.deepEqual(await once(db, name, () => 'again'), { result: name, repeated: true })
          }
        })

        test('a statement of one owns writing may end in a semicolon, and its values keep their types', async () => {
          const place = postgres ? '$1' : '?'
          const update = `update t set val = ${place} where id = 'abc'; `
          for (const value of [
            null,
            '00',
            7,
            '007',
            2 ** 40,
            'abc',
            7n,
            '0x',
            new Date(0),
            '1 ',
            null,
            '00',
          ]) {
            await db.run(update, [value])
            if (typeof value === 'string') assert.equal((await rows()).get('abc'), value)
          }
        })

        test('dates, bytes and JSON arrive as they are', async () => {
          const all = { table: 't', key: { id: 'abc' } }
          const doc = { expression: '1', values: ["'", { a: [1, null, '中'] }] }
          const read = async () => {
            const found = (await own.db.run("select doc from t where id = 'abc'", [])).rows[0]?.['doc']
            return typeof found === 'string' ? JSON.parse(found) : found
          }
          await guardedUpdate(db, {
            ...all,
            set: { doc: json(doc), val: Buffer.from('bytes') },
            fence: fence(),
          })
          assert.deepEqual(await read(), doc)
          await guardedUpsert(db, {
            ...all,
            set: { doc: json([1]), val: new Date(86_400_000) },
            fence: fence(),
          })
          assert.deepEqual(await read(), [1])
          assert.match(String((await rows()).get('abc')), /^1970-01-0[123]/)
        })
      })
    }
  })
}

test('an expression is recognised by its origin, and cannot be forged', async () => {
  const made = expression('stock - ?', 1)
  const db = { dialect: 'postgres' as const, run: () => Promise.reject(new Error('was sent')) }
  const write = (val: unknown) =>
    guardedUpdate(db, { table: 't', key: { id: 1 }, set: { val }, fence: { name: 'a', token: 1 } })
  await assert.rejects(write(made), /was sent/)
  await assert.rejects(write({ ...made }), /set.val is an object/)
  await assert.rejects(write(structuredClone(made)), /set.val is an object/)
  await assert.rejects(write(Object.create(made)), /set.val is an object/)
  const upsert = guardedUpsert(db, {
    ...{ table: 't', key: { id: 1 }, set: { val: made } },
    fence: { name: 'a', token: 1 },
  })
  await assert.rejects(upsert, /val is an expression, and guardedUpsert may insert a row/)
  assert.throws(() => json(undefined), /json takes a value that JSON can represent, got undefined/)
})

after(leakCheck)
