// mysql2 compiles a parser for each new set of result columns and keeps it: no column is called by what is in a lock's name or a ticket.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { inTransaction, type MysqlOptions, mysql } from 'holdfast/mysql'
import { createPool, type Pool } from 'mysql2/promise'
import { createLocks } from '../../../src/create-locks.js'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import { observed } from './support/observed.js'

const variants: readonly Partial<MysqlOptions>[] = [{}, { wakeWithGetLock: true }, { strategy: 'session' }]

for (const flavour of ['mariadb', 'mysql'] as const) {
  describe(`columns (${flavour})`, { concurrency: false }, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
    })
    after(() => server.stop())

    for (const options of variants) {
      it(`have the same names for every lock: ${JSON.stringify(options)}`, async (t) => {
        const pool = createPool({ uri: server.url, connectionLimit: 6 })
        const sets = new Set<string>()
        const seen = observed(pool, { columns: (names) => void sets.add(names.join(' ')) })
        const all = [0, 1].map(() => createLocks(mysql({ pool: seen, ...options } as MysqlOptions)))
        const [a, b] = all as [(typeof all)[0], (typeof all)[0]]
        t.after(async () => {
          await Promise.all(all.map((locks) => locks.close()))
          await pool.end()
        })
        const work = async (name: string) => {
          const lease = await a.mutex(name).acquire()
          const next = b.mutex(name).acquire({ wait: 60_000 })
          await until(async () => (await a.inspect(name)).waiters.length === 1)
          await lease.extend()
          await a.list(name)
          assert.equal(await b.mutex(name).tryAcquire({ reentrant: false }), undefined)
          await lease.release()
          await (await next).release()
          await a.mutex(name).acquire()
          await b.forceRelease(name)
          if (options.strategy === 'session') return
          await a.readWrite(`${name} r`).read.run(() => b.readWrite(`${name} r`).read.run(() => undefined))
          const pages = (locks: typeof a) => locks.semaphore(`${name} s`, { permits: 3 })
          const first = await pages(a).acquire({ permits: 2 })
          assert.equal(await pages(b).tryAcquire({ permits: 2 }), undefined)
          await first.release()
          await (await a.all([a.mutex(`${name} 1`), a.mutex(`${name} 2`)]).acquire()).release()
          await a.once(`${name} o`, () => 'done', { keep: 60_000 })
        }
        await work('a name')
        // Only letters: no expression, no ticket, no name.
        for (const names of sets) assert.match(names, /^[a-z_]+( [a-z_]+)*$/)
        assert.ok(sets.size > 5)
      })
    }

    it('have the same names for every lock in a transaction', async (t) => {
      const pool = createPool({ uri: server.url, connectionLimit: 6 })
      t.after(() => pool.end())
      const sets = new Set<string>()
      const seen = observed(pool, { columns: (names) => void sets.add(names.join(' ')) })
      const connection = (await seen.getConnection()) as Awaited<ReturnType<Pool['getConnection']>>
      await connection.beginTransaction()
      await inTransaction(connection, 'in a transaction', { pool: seen, wait: 60_000 })
      await connection.rollback()
      connection.release()
      assert.ok(sets.size > 0)
      for (const name of sets) assert.match(name, /^[a-z_]+( [a-z_]+)*$/)
    })
  })
}

after(leakCheck)
