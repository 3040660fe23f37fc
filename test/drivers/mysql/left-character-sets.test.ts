// The application leaves connections of the pool that the locks share with a character set in which an answer cannot be read, or a statement
// not be written: each character takes two bytes or four.
// Second tier because left-settings.test.ts shows what is left behind most.
import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { createLocks } from 'holdfast'
import { mysql } from 'holdfast/mysql'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import { type Library, open } from './support/clients.js'
import { leave, locksOn, type SharedConnection, size } from './support/shared-pool.js'

const sets = ['utf16', 'ucs2', 'utf32']

for (const flavour of ['mariadb', 'mysql'] satisfies Flavour[]) {
  describe(flavour, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
    })
    after(() => server.stop())

    for (const library of ['mysql2', 'mariadb'] satisfies Library[]) {
      const start = (t: TestContext, strategy: 'row' | 'session' = 'row') => {
        const { pool, close } = open(library, server.port, size)
        return { pool, locks: locksOn(t, pool, strategy, close) }
      }

      for (const strategy of ['row', 'session'] as const) {
        for (const set of sets) {
          it(`${strategy}: character_set_results = ${set} lets no second holder in (${library})`, async (t) => {
            const [a, b] = [start(t, strategy), start(t, strategy)]
            const spoil = () => leave(a.pool, `SET character_set_results = ${set}`)
            // A session keeps its first connection.
            const spoilAgain = () => (strategy === 'row' ? spoil() : undefined)
            const name = `${library} ${strategy} ${set}`
            const lease = await b.locks.mutex(name).acquire({ ttl: 60_000 })
            await spoil()
            assert.equal(await a.locks.mutex(name).tryAcquire(), undefined)
            await spoilAgain()
            assert.equal((await a.locks.inspect(name)).holders[0]?.token, lease.token)
            await spoilAgain()
            assert.deepEqual(
              (await a.locks.list(name)).map((one) => one.holders.length),
              [1],
            )
            await spoilAgain()
            const next = a.locks.mutex(name).acquire({ ttl: 60_000, wait: 60_000 })
            await until(async () => (await b.locks.inspect(name)).waiters.length === 1)
            assert.equal(await lease.release(), 'released')
            const second = await next
            assert.ok(second.token > lease.token)
            await spoilAgain()
            await second.extend()
            assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
            assert.equal(await second.release(), 'released')
          })
        }
      }

      it(`a pool with such connections only is reported, with the remedy (${library})`, async (t) => {
        const { pool } = start(t)
        const spoiled = {
          async getConnection() {
            const connection = (await pool.getConnection()) as SharedConnection
            await connection.query('SET character_set_results = ucs2')
            return connection
          },
        }
        const locks = createLocks(mysql({ pool: spoiled }))
        await assert.rejects(locks.mutex('spoiled').tryAcquire(), {
          code: 'BACKEND',
          message: /^mysql: the answer cannot be read; .*: a character_set_results .*; set it to utf8mb4$/,
        })
        await locks.close()
      })

      for (const set of sets) {
        it(`readers and permits do not depend on collation_connection = ${set}_bin (${library})`, async (t) => {
          const [a, b] = [start(t), start(t)]
          const name = `beside ${library} ${set}`
          for (const [one, other] of [
            [a.locks, b.locks],
            [b.locks, a.locks],
          ] as const) {
            await leave(a.pool, `SET collation_connection = ${set}_bin`)
            const readers = [one.readWrite(name).read, other.readWrite(name).read] as const
            const [first, second] = [await readers[0].acquire(), await readers[1].acquire()]
            assert.equal(await one.readWrite(name).write.tryAcquire(), undefined)
            await Promise.all([first.extend(), second.extend()])
            for (const lease of [first, second]) assert.equal(await lease.release(), 'released')
            const permit = await one.semaphore(`${name} permits`, { permits: 1 }).acquire()
            assert.equal(await other.semaphore(`${name} permits`, { permits: 1 }).tryAcquire(), undefined)
            assert.equal(await permit.release(), 'released')
          }
        })
      }
    }
  })
}

after(leakCheck)
