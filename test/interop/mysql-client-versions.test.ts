// The oldest, the most used and the newest of both clients, with a pool of one connection and with options that change the results.
// Second tier because it repeats for other versions of the clients what the others show.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { inTransaction, type MysqlPool, mysql } from 'holdfast/mysql'
import { leakCheck } from '../support/leaks.js'
import { type MysqlServer, startMysql } from '../support/servers/mysql.js'
import { until } from '../support/until.js'

interface Transaction {
  query(options: { sql: string; rowsAsArray: boolean }): Promise<unknown>
  beginTransaction(): Promise<void>
  commit(): Promise<void>
  release(): unknown
}
interface Pool extends MysqlPool {
  getConnection(): Promise<Transaction>
  end(): Promise<void>
}
interface Client {
  createPool(options: object): Pool
}

const next = (_: unknown, use: () => unknown) => use()
const common = {
  namedPlaceholders: true,
  dateStrings: true,
  rowsAsArray: true,
  nestTables: true,
  typeCast: next,
}
const options = {
  mysql2: { ...common, supportBigNumbers: true, bigNumberStrings: true, decimalNumbers: true },
  mariadb: {
    ...common,
    insertIdAsNumber: true,
    bigIntAsNumber: true,
    decimalAsNumber: true,
    metaAsArray: true,
  },
} as const
const versions: readonly (readonly [library: keyof typeof options, from: string])[] = [
  ['mysql2', 'mysql2-3.0/promise'],
  ['mysql2', 'mysql2-3.14/promise'],
  ['mysql2', 'mysql2/promise'],
  ['mariadb', 'mariadb-3.0'],
  ['mariadb', 'mariadb-3.4'],
  ['mariadb', 'mariadb'],
]

let server: MysqlServer
before(async () => {
  server = await startMysql()
})
after(() => server.stop())

for (const [library, from] of versions) {
  for (const [how, more] of [
    ['as it is', {}],
    ['with options', options[library]],
  ] as const) {
    describe(`${from} ${how}, a pool of one`, () => {
      let client: Client
      const opened: { locks: Locks; pool: Pool }[] = []
      const one = () => {
        const place = { host: '127.0.0.1', user: 'root', database: 'holdfast', port: server.port }
        const pool = client.createPool({ ...place, connectionLimit: 1, ...more })
        const locks = createLocks(mysql({ pool }))
        opened.push({ locks, pool })
        return { locks, pool }
      }
      const close = async ({ locks, pool }: { locks: Locks; pool: Pool }) => {
        await locks.close()
        await pool.end()
      }
      before(async () => {
        client = (await import(from)) as Client
      })
      after(async () => {
        for (const each of opened) await close(each)
      })

      it('hands over between processes, of every mode, with growing tokens', async () => {
        const [a, b] = [one(), one()]
        const locksOf = ({ locks }: { locks: Locks }) => [
          locks.mutex(`${from} ${how}`),
          locks.readWrite(`${from} ${how} rw`).write,
          locks.semaphore(`${from} ${how} s`, { permits: 1 }),
        ]
        const others = locksOf(b)
        for (const [i, lock] of locksOf(a).entries()) {
          const lease = await lock.acquire()
          const asked = others[i]?.acquire()
          await until(async () => (await a.locks.inspect(lock.name)).waiters.length === 1)
          assert.equal((await a.locks.inspect(lock.name)).holders[0]?.token, lease.token)
          assert.equal(await lease.release(), 'released')
          const following = await asked
          assert.ok(following && following.token > lease.token && following.remaining() > 20_000)
          assert.equal(await following.release(), 'released')
        }
      })

      it('tells a loss, renews, and lists', async () => {
        const [a, b] = [one(), one()]
        const name = `${from} ${how} lost`
        const lease = await a.locks.mutex(name).acquire()
        const lost = new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
        assert.ok((await lease.extend()) > 0)
        const second = await a.locks.mutex(`${name} 2`).acquire()
        const names = (await b.locks.list(name)).map((standing) => standing.name)
        assert.deepEqual(names, [name, `${name} 2`])
        assert.equal(await b.locks.forceRelease(name), 1)
        // No renewal is due for a while.
        await assert.rejects(lease.extend(), { code: 'LEASE_LOST' })
        await lost
        assert.equal(await lease.release(), 'lost')
        assert.equal(await second.release(), 'released')
      })

      it('is granted to the next waiter when its holder has crashed', async () => {
        const [a, b] = [one(), one()]
        const lease = await a.locks.mutex(`${from} ${how} crash`).acquire({ ttl: 1_000, autoRenew: false })
        const following = await b.locks.mutex(`${from} ${how} crash`).acquire()
        assert.ok(following.token > lease.token)
        assert.equal(lease.isHeld, false)
        assert.equal(await following.release(), 'released')
      })

      it('locks in a transaction on its only connection', async () => {
        const { pool } = one()
        const tokens: number[] = []
        for (let i = 0; i < 2; i++) {
          const connection = await pool.getConnection()
          await connection.beginTransaction()
          tokens.push((await inTransaction(connection, `${from} ${how} tx`, { pool })).token)
          await connection.commit()
          await connection.release()
        }
        assert.ok((tokens[0] ?? 0) < (tokens[1] ?? 0))
      })
    })
  }
}

after(leakCheck)
