// A `typeCast` of the pool changes the application's results, not those of the locks.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { type MysqlPool, mysql } from 'holdfast/mysql'
import { createPool as createMariadb } from 'mariadb'
import { createPool as createMysql2 } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'

let server: MysqlServer
before(async () => {
  server = await startMysql()
})
after(() => server.stop())

type Cast = (column: unknown, next: () => unknown) => unknown
const casts: Readonly<Record<string, Cast>> = {
  'to nothing': () => null,
  'to objects': (_, next) => ({ value: next() }),
  'to upper case': (_, next) => {
    const value = next()
    return typeof value === 'string' ? value.toUpperCase() : value
  },
}
interface Pool extends MysqlPool {
  end(): Promise<void>
}
const clients: Readonly<Record<string, (options: object) => Pool>> = {
  mysql2: (options) => createMysql2(options),
  mariadb: (options) => createMariadb({ ...options, allowPublicKeyRetrieval: true }) as unknown as Pool,
}

for (const [client, open] of Object.entries(clients)) {
  for (const strategy of ['row', 'session'] as const) {
    for (const [what, typeCast] of Object.entries(casts)) {
      test(`${client}, ${strategy}: a typeCast ${what} changes nothing`, async (t) => {
        const start = (options: object) => {
          const place = { host: server.host, port: server.port, user: 'root', database: 'holdfast' }
          const pool = open({ ...place, connectionLimit: 2, ...options })
          const locks = createLocks(mysql({ pool, strategy })) as unknown as Locks
          t.after(async () => {
            await locks.close()
            await pool.end()
          })
          return locks
        }
        const [a, b] = [start({ typeCast }), start({})]
        const name = `${client} ${strategy} ${what}`
        const lease = await a.mutex(name).acquire()
        assert.equal(await b.mutex(name).tryAcquire(), undefined)
        await lease.extend()
        assert.equal((await a.list(name))[0]?.holders[0]?.token, lease.token)
        assert.equal(await lease.release(), 'released')
        const second = await b.mutex(name).acquire()
        assert.equal(await a.mutex(name).tryAcquire(), undefined)
        const third = a.mutex(name).acquire()
        await until(async () => (await b.inspect(name)).waiters.length === 1)
        assert.equal(await second.release(), 'released')
        assert.equal(await (await third).release(), 'released')
      })
    }
  }
}

after(leakCheck)
