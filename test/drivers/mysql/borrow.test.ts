// The driver uses the pool under mysql2's promise flavour, but a pool that somebody has changed as they have made it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createLocks } from 'holdfast'
import { mysql } from 'holdfast/mysql'
import { createPool, type Pool } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'

let server: MysqlServer
before(async () => {
  server = await startMysql()
})
after(() => server.stop())

/** Each makes a pool of `pool` that calls `asked` whenever it is asked for a connection. */
const changed: Readonly<Record<string, (pool: Pool, asked: () => void) => Pool>> = {
  'a method of its own'(pool, asked) {
    const original = pool.getConnection.bind(pool)
    pool.getConnection = () => {
      asked()
      return original()
    }
    return pool
  },
  'an object with the pool as its prototype': (pool, asked) =>
    Object.assign(Object.create(pool), {
      getConnection() {
        asked()
        return pool.getConnection()
      },
    }),
  'a proxy': (pool, asked) =>
    new Proxy(pool, {
      get(target, key) {
        if (key !== 'getConnection') return Reflect.get(target, key)
        return () => {
          asked()
          return target.getConnection()
        }
      },
    }),
  'the callback pool underneath'(pool, asked) {
    const { pool: core } = pool
    const original = core.getConnection.bind(core)
    core.getConnection = (done) => {
      asked()
      original(done)
    }
    return pool
  },
}

for (const [how, change] of Object.entries(changed)) {
  test(`a pool with another getConnection is asked for every connection: ${how}`, async () => {
    const pool = createPool({ uri: server.url, connectionLimit: 2 })
    let asked = 0
    const locks = createLocks(mysql({ pool: change(pool, () => void asked++) }))
    const lease = await locks.mutex(how).acquire()
    const before = asked
    await lease.release()
    assert.ok(before > 0 && asked > before, `${before}, then ${asked}`)
    await locks.close()
    await pool.end()
  })
}

after(leakCheck)
