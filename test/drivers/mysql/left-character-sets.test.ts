// The application leaves connections of the pool that the locks share with a character set in which an answer cannot be read, or a statement
// not be written: each character takes two bytes or four, brackets are letters, or the client does not know it.
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

const sets = ['utf16', 'ucs2', 'utf32', 'utf16le']
/** mysql2 decodes no answer in them, and no client encodes a statement. In swe7 there are no brackets. */
const undecoded = ['swe7', 'dec8']

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
        for (const set of [...sets, ...undecoded]) {
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

      const reports: readonly (readonly [statement: string, message: RegExp])[] = [
        [
          'SET character_set_results = ucs2',
          /^mysql: the answer cannot be read; .*: a character_set_results /,
        ],
        ['SET NAMES dec8', /^mysql: Encoding not recognized: 'dec8'.*; .*: a character_set_results /],
        ['SET NAMES armscii8', /^mysql: .*: a character_set_client /],
      ]
      for (const [statement, message] of reports) {
        it(`a pool with only such connections as ${statement} leaves is reported, with the remedy (${library})`, async (t) => {
          const { pool } = start(t)
          const spoiled = {
            async getConnection() {
              const connection = (await pool.getConnection()) as SharedConnection
              await connection.query(statement)
              return connection
            },
          }
          const locks = createLocks(mysql({ pool: spoiled }))
          const reported = await locks
            .mutex('spoiled')
            .tryAcquire()
            .then(String, ({ message }) => message)
          assert.match(reported, message)
          assert.match(reported, /; set it to utf8mb4/)
          await locks.close()
        })
      }

      const collations = [...sets.map((set) => `${set}_bin`), 'swe7_bin', 'binary']
      const all = [
        ...collations.map((collation) => `SET collation_connection = ${collation}`),
        'SET character_set_results = swe7',
        'SET NAMES armscii8',
      ]
      for (const statement of all) {
        it(`readers and permits do not depend on ${statement} (${library})`, async (t) => {
          const [a, b] = [start(t), start(t)]
          const name = `beside ${library} ${statement}`
          // Whatever is next meets such a connection.
          const spoil = () => leave(a.pool, statement)
          for (const [one, other] of [
            [a.locks, b.locks],
            [b.locks, a.locks],
          ] as const) {
            await spoil()
            const readers = [one.readWrite(name).read, other.readWrite(name).read] as const
            const [first, second] = [await readers[0].acquire(), await readers[1].acquire()]
            assert.equal(await one.readWrite(name).write.tryAcquire(), undefined)
            await spoil()
            await Promise.all([first.extend(), second.extend()])
            for (const { locks } of [a, b]) {
              await spoil()
              assert.equal((await locks.inspect(name)).holders.length, 2)
            }
            for (const lease of [first, second]) {
              await spoil()
              assert.equal(await lease.release(), 'released')
            }
            await spoil()
            const permit = await one.semaphore(`${name} permits`, { permits: 1 }).acquire()
            assert.equal(await other.semaphore(`${name} permits`, { permits: 1 }).tryAcquire(), undefined)
            await spoil()
            assert.equal(await permit.release(), 'released')
          }
        })
      }
    }
  })
}

after(leakCheck)
