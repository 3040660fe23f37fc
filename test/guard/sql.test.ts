// Second tier because it asks the same of every server with each of its clients; row-forms.test.ts and converted-values.test.ts run guards on SQL for every change.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createLocks, StaleTokenError, VersionConflictError } from 'holdfast'
import {
  admit,
  expression,
  fenceSchema,
  guardedDelete,
  guardedRead,
  guardedUpdate,
  guardedUpsert,
  once,
  onceSchema,
  type Sql,
  sqlFences,
  withVersion,
} from 'holdfast/guard'
import { proveGuard } from 'holdfast/guard/testing'
import { memory } from 'holdfast/memory'
import { updateStatement } from '../../src/guard/sql.js'
import { Text } from '../../src/guard/sql-text.js'
import { leakCheck } from '../support/leaks.js'
import { type Place, places } from './support/sql-places.js'

const fence = (token: number, name = 'invoice') => ({ name, token })
let count = 0
const fresh = (): string => `row-${++count}`

for (const [where, open] of Object.entries(places)) {
  describe(`SQL guards on ${where}`, () => {
    let place: Place
    before(async () => {
      place = await open()
      await place.run(
        'create table rows_of_mine (id varchar(60) primary key, val varchar(60), amount int, fence bigint, version int not null default 0)',
      )
      await place.run('create table plain (id varchar(60) primary key, val varchar(60))')
      for (const statement of [...fenceSchema(place.pool.dialect), ...onceSchema(place.pool.dialect)])
        await place.run(statement)
    })
    after(() => place[Symbol.asyncDispose]())

    const insert = async (id: string, amount = 0) => {
      const place1 = place.pool.dialect === 'mysql' ? '?, ?' : '$1, $2'
      await place.run(`insert into rows_of_mine (id, amount) values (${place1})`, id, amount)
    }
    const read = async (id: string, table = 'rows_of_mine') => {
      const one = place.pool.dialect === 'mysql' ? '?' : '$1'
      return (await place.run(`select * from ${table} where id = ${one}`, id))[0]
    }
    const value = async (id: string, table?: string) =>
      ((await read(id, table))?.['val'] ?? undefined) as string | undefined

    test('guardedUpdate: the kit proves it', async () => {
      const known = new Set<string>()
      await proveGuard(async (id) => {
        if (!known.has(id)) await insert(id)
        known.add(id)
        return {
          write: (val, by) =>
            guardedUpdate(place.pool, { table: 'rows_of_mine', key: { id }, set: { val }, fence: by }),
          read: () => value(id),
        }
      })
    })

    test('guardedUpsert: the kit proves it', async () => {
      await proveGuard((id) => ({
        write: (val, by) =>
          guardedUpsert(place.pool, { table: 'rows_of_mine', key: { id }, set: { val }, fence: by }),
        read: () => value(id),
      }))
    })

    test('admit: the kit proves a transaction over a table that knows no tokens', async () => {
      await proveGuard(
        (id) => ({
          write: (val, by) =>
            place.transaction(async (db) => {
              await admit(db, { ...by, name: id })
              const to = new Text(db.dialect)
              const marks = `${to.value(id, 'id')}, ${to.value(val, 'val')}`
              const twice =
                db.dialect === 'mysql'
                  ? 'on duplicate key update val = values(val)'
                  : 'on conflict (id) do update set val = excluded.val'
              const { values } = to.as('')
              await db.run(`insert into plain (id, val) values (${marks}) ${twice}`, values)
            }),
          read: () => value(id, 'plain'),
        }),
        { rounds: 30 },
      )
    })

    test('and the kit catches one that looks before it writes', async () => {
      const known = new Set<string>()
      const broken = proveGuard(async (id) => {
        if (!known.has(id)) await insert(id)
        known.add(id)
        return {
          async write(val, { name, token }) {
            const newest = Number((await read(id))?.['fence'] ?? 0)
            if (newest > token) throw new StaleTokenError(name, token, newest)
            const to = new Text(place.pool.dialect)
            const { text, values } = to.as(
              `update rows_of_mine set val = ${to.value(val, 'val')}, fence = ${to.value(token, 'fence')} where id = ${to.value(id, 'id')}`,
            )
            await place.pool.run(text, values)
          },
          read: () => value(id),
        }
      })
      await assert.rejects(broken, { rule: 'the newest token wins when all write at once' })
    })

    test('guardedUpdate: true when written, also the same twice; false without such a row', async () => {
      const id = fresh()
      const write = (token: number, val = 'a') =>
        guardedUpdate(place.pool, { table: 'rows_of_mine', key: { id }, set: { val }, fence: fence(token) })
      assert.equal(await write(5), false)
      await insert(id)
      assert.equal(await write(5), true)
      assert.equal(await write(5), true)
      await assert.rejects(write(4), { code: 'STALE_TOKEN', lock: 'invoice', token: 4, newest: 5 })
      await assert.rejects(write(4, 'b'), StaleTokenError)
      assert.equal(await write(6, 'c'), true)
      assert.equal(await value(id), 'c')
    })

    test('a transaction that sees an older snapshot is refused as any other, at once', async () => {
      const id = fresh()
      await insert(id)
      const write = (db: Sql, token: number, val: string) =>
        guardedUpdate(db, { table: 'rows_of_mine', key: { id }, set: { val }, fence: fence(token) })
      const stale = place.transaction(async (db) => {
        await db.run('select count(*) from rows_of_mine', [])
        await write(place.pool, 6, 'newer')
        await write(db, 5, 'older')
      })
      await assert.rejects(stale, StaleTokenError)
      assert.equal(await value(id), 'newer')
    })

    test('an expression computes from the row, and fences may stand in a column of another name', async () => {
      const id = fresh()
      await insert(id, 10)
      const sell = (token: number) =>
        guardedUpdate(place.pool, {
          table: 'rows_of_mine',
          key: { id },
          column: 'version',
          set: { amount: expression('amount - ?', 3), val: null },
          fence: fence(token),
        })
      await sell(1)
      await sell(2)
      await assert.rejects(sell(1), StaleTokenError)
      assert.equal(Number((await read(id))?.['amount']), 4)
    })

    test('guardedDelete takes the row unless a newer token was there', async () => {
      const id = fresh()
      await guardedUpsert(place.pool, {
        table: 'rows_of_mine',
        key: { id },
        set: { val: 'a' },
        fence: fence(5),
      })
      const remove = (token: number) =>
        guardedDelete(place.pool, { table: 'rows_of_mine', key: { id }, fence: fence(token) })
      await assert.rejects(remove(4), StaleTokenError)
      assert.equal(await remove(6), true)
      assert.equal(await remove(6), false)
    })

    test('admit holds the newer one back until the older has committed', async () => {
      const order: string[] = []
      let commit = () => {}
      const may = new Promise<void>((resolve) => (commit = resolve))
      const name = fresh()
      let admitted = () => {}
      const inside = new Promise<void>((resolve) => (admitted = resolve))
      const older = place.transaction(async (db) => {
        await admit(db, fence(1, name))
        admitted()
        await may
        order.push('older')
      })
      await inside
      const newer = place.transaction(async (db) => {
        await admit(db, fence(2, name))
        order.push('newer')
      })
      // Another name is not concerned; and by then the newer one has asked.
      await place.transaction((db) => admit(db, fence(1, `${name} other`)))
      commit()
      await Promise.all([older, newer])
      assert.deepEqual(order, ['older', 'newer'])
      await assert.rejects(
        place.transaction((db) => admit(db, fence(1, name))),
        { code: 'STALE_TOKEN', newest: 2 },
      )
      await assert.rejects(sqlFences(place.pool).admit(fence(1, name)), StaleTokenError)
    })

    test('token first, then read: no older holder writes between the reading and the writing', async () => {
      const row = (id: string, token: number) => ({
        table: 'rows_of_mine',
        key: { id },
        fence: fence(token),
      })
      const amount = async (id: string) => Number((await read(id))?.['amount'])
      const [plain, guarded, moved] = [fresh(), fresh(), fresh()]
      for (const id of [plain, guarded, moved]) await insert(id, 10)
      // Read without it, the older write is let in, and lost.
      const seen = await amount(plain)
      assert.equal(await guardedUpdate(place.pool, { ...row(plain, 1), set: { amount: 7 } }), true)
      await guardedUpdate(place.pool, { ...row(plain, 2), set: { amount: seen + 5 } })
      assert.equal(await amount(plain), 15)
      // Read with it, the older write is refused.
      const first = await guardedRead(place.pool, row(guarded, 2))
      await assert.rejects(
        guardedUpdate(place.pool, { ...row(guarded, 1), set: { amount: 7 } }),
        StaleTokenError,
      )
      await assert.rejects(guardedRead(place.pool, row(guarded, 1)), StaleTokenError)
      await guardedUpdate(place.pool, {
        ...row(guarded, 2),
        set: { amount: Number(first?.['amount']) + 5 },
      })
      assert.equal(await amount(guarded), 15)
      assert.equal(await guardedRead(place.pool, row('no such row', 2)), undefined)
      // The same with admit: who is newer reads what the older one has committed, or the older one is refused.
      const add = (token: number, by: number) =>
        place.transaction(async (db) => {
          await admit(db, fence(token, moved))
          const at = db.dialect === 'mysql' ? '?' : '$1'
          const [now] = (await db.run(`select amount from rows_of_mine where id = ${at} for update`, [moved]))
            .rows
          await guardedUpdate(db, { ...row(moved, token), set: { amount: Number(now?.['amount']) + by } })
        })
      const [older] = await Promise.allSettled([add(1, 1), add(2, 100)])
      assert.equal(await amount(moved), older?.status === 'fulfilled' ? 111 : 110)
    })

    test('a lease that is known to be lost is refused before anything is sent', async () => {
      await using locks = createLocks(memory())
      const lease = await locks.mutex('a').acquire()
      await lease.release()
      const row = { table: 'no such table', key: { id: 1 }, set: { a: 1 }, fence: lease }
      await assert.rejects(guardedUpdate(place.pool, row), { code: 'LEASE_LOST' })
      await assert.rejects(admit(place.pool, lease), { code: 'LEASE_LOST' })
    })

    test('withVersion: many writers of one row lose nothing', async () => {
      const id = fresh()
      await insert(id)
      const add = () =>
        withVersion(place.pool, { table: 'rows_of_mine', key: { id }, attempts: 100 }, (row) => ({
          amount: Number(row['amount']) + 1,
        }))
      const results = await Promise.all(Array.from({ length: 20 }, add))
      const row = await read(id)
      assert.equal(Number(row?.['amount']), 20)
      assert.equal(Number(row?.['version']), 20)
      assert.deepEqual(
        results.map((one) => Number(one?.['version'])).sort((a, b) => a - b),
        Array.from({ length: 20 }, (_, i) => i + 1),
      )
    })

    test('withVersion: gives up after the given number of attempts, and changes nothing when the change returns nothing', async () => {
      const id = fresh()
      await insert(id)
      let tries = 0
      const always = async () => {
        tries++
        await withVersion(place.pool, { table: 'rows_of_mine', key: { id } }, () => ({
          val: `other ${tries}`,
        }))
        return { val: 'mine' }
      }
      await assert.rejects(
        withVersion(place.pool, { table: 'rows_of_mine', key: { id }, attempts: 3 }, always),
        (error) => {
          assert.ok(error instanceof VersionConflictError)
          return error.attempts === 3
        },
      )
      assert.equal(tries, 3)
      assert.equal(await value(id), 'other 3')
      assert.equal(
        await withVersion(place.pool, { table: 'rows_of_mine', key: { id } }, () => undefined),
        undefined,
      )
      assert.equal(
        await withVersion(place.pool, { table: 'rows_of_mine', key: { id: 'none' } }, () => ({ val: 'x' })),
        undefined,
      )
      assert.equal(Number((await read(id))?.['version']), 3)
    })

    test('once: ten at the same time do it once, and all get its result', async () => {
      const key = fresh()
      await insert(key)
      let ran = 0
      const order = () =>
        place.transaction((db) =>
          once(db, key, async () => {
            ran++
            await guardedUpdate(db, {
              table: 'rows_of_mine',
              key: { id: key },
              set: { amount: expression('amount + ?', 1) },
              fence: fence(1),
            })
            return { order: 7, text: 'ä' }
          }),
        )
      const answers = await Promise.all(Array.from({ length: 10 }, order))
      assert.equal(Number((await read(key))?.['amount']), 1)
      assert.ok(ran >= 1)
      assert.equal(answers.filter(({ repeated }) => !repeated).length, 1)
      for (const { result } of answers) assert.deepEqual(result, { order: 7, text: 'ä' })
      assert.deepEqual(await order(), { result: { order: 7, text: 'ä' }, repeated: true })
    })

    test('once: what was rolled back had not been done', async () => {
      const key = fresh()
      await insert(key)
      const attempt = (fails: boolean) =>
        place.transaction((db) =>
          once(db, key, async () => {
            await guardedUpdate(db, {
              table: 'rows_of_mine',
              key: { id: key },
              set: { val: 'done' },
              fence: fence(1),
            })
            if (fails) throw new Error('no money')
          }),
        )
      await assert.rejects(attempt(true), /no money/)
      assert.equal(await value(key), undefined)
      assert.deepEqual(await attempt(false), { result: undefined, repeated: false })
      assert.deepEqual(await attempt(true), { result: undefined, repeated: true })
      assert.equal(await value(key), 'done')
    })

    test('once: a stale holder is refused before it does anything', async () => {
      const name = fresh()
      const at = (token: number, key: string) =>
        place.transaction((db) => once(db, key, () => key, { fence: fence(token, name) }))
      assert.deepEqual(await at(2, `${name} a`), { result: `${name} a`, repeated: false })
      await assert.rejects(at(1, `${name} b`), StaleTokenError)
      assert.deepEqual(await at(2, `${name} b`), { result: `${name} b`, repeated: false })
    })

    test('once: outside of a transaction what was left half done is reported', async () => {
      const key = fresh()
      const fail = () => Promise.reject(new Error('crashed'))
      await assert.rejects(once(place.pool, key, fail), /crashed/)
      await assert.rejects(once(place.pool, key, fail), /begun outside of a transaction/)
    })
  })
}

test('statements are plain, with a place for every value', () => {
  const target = { table: 'shop.invoices', key: { id: 7, part: 'a' } }
  const set = { total: expression('total - ?', 5), note: 'x' }
  assert.deepEqual(updateStatement('postgres', target, set, 9), {
    text: 'update "shop"."invoices" set "total" = (total - $1), "note" = $2, "fence" = $3 where "id" = $4 and "part" = $5 and coalesce("fence", 0) <= $6',
    values: [5, 'x', 9, 7, 'a', 9],
  })
  assert.deepEqual(updateStatement('mysql', { table: 'a`b', key: { id: 1 } }, {}, 9), {
    text: 'update `a``b` set `fence` = ? where `id` = ? and coalesce(`fence`, 0) <= ?',
    values: [9, '1', 9],
  })
})

test('tables of any name are created and used under that name', () => {
  assert.match(
    fenceSchema('postgres', 'My.fe"nces')[0] ?? '',
    /^create table if not exists "My"."fe""nces" \(/,
  )
  assert.match(onceSchema('mysql', 'on`ce')[0] ?? '', /^create table if not exists `on``ce` \(/)
})

test('once: the first result is the copy that is kept, and what JSON cannot tell is not recorded', async () => {
  const sent: string[] = []
  let attempt: unknown
  const db: Sql = {
    dialect: 'postgres',
    async run(text, values) {
      sent.push(text)
      if (text.startsWith('insert')) attempt = values[1]
      return {
        rows: text.startsWith('select') ? [{ attempt: `=${attempt}`, done: 0, result: '=' }] : [],
        changed: 1,
      }
    },
  }
  const at = new Date(0)
  const { result } = await once(db, 'a', () => ({ at, none: undefined, nan: Number.NaN }))
  assert.deepEqual(result, { at: '1970-01-01T00:00:00.000Z', nan: null })
  await assert.rejects(
    once(db, 'a', () => ({ big: 1n })),
    /the result of a cannot be kept as JSON: .*BigInt/,
  )
  assert.equal(sent.filter((text) => text.startsWith('update')).length, 1)
})

test('bad input is reported before any I/O', async () => {
  const db = { dialect: 'mysql' as const, run: () => Promise.reject(new Error('was sent')) }
  const row = { table: 't', key: { id: 1 }, set: { a: 1 }, fence: fence(1) }
  const said: [Promise<unknown>, RegExp][] = [
    [guardedUpdate(db, { ...row, fence: fence(0) }), /a token is a safe integer greater than 0, got 0/],
    [guardedUpdate(db, { ...row, fence: fence(2 ** 53) }), /safe integer/],
    [guardedUpdate(db, { ...row, fence: fence(1, '') }), /lock name must not be empty/],
    [guardedUpdate(db, { ...row, fence: undefined as never }), /takes a lease or .* got undefined/],
    [guardedUpdate(db, { ...row, key: {} }), /key names no column/],
    [guardedUpdate(db, { ...row, key: { id: null } }), /key.id is null/],
    [guardedUpdate(db, { ...row, set: { a: undefined } }), /set.a is undefined/],
    [guardedUpdate(db, { ...row, table: '' }), /must have a name, got ""/],
    [withVersion(db, { table: 't', key: { id: 1 }, attempts: 0 }, () => ({})), /attempts must be .* got 0/],
    [once(db, '', () => 1), /key must not be empty/],
  ]
  for (const [promise, message] of said) await assert.rejects(promise, message)
  assert.throws(() => expression('a + ?'), /has 1 placeholders for 0 values/)
})

after(leakCheck)
