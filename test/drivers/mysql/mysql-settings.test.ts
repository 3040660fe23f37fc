// Settings that exist only in MySQL, or that MariaDB treats differently.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createLocks } from 'holdfast'
import { mysql } from 'holdfast/mysql'
import { createPool as createMariadb } from 'mariadb'
import { createPool } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'

describe('MySQL', { concurrency: false }, () => {
  let server: MysqlServer
  before(async () => {
    server = await startMysql({ flavour: 'mysql' })
    // An administrator is let in even in offline mode.
    await server.query(`create user 'plain'@'%'`)
    await server.query(`grant select, insert, update, delete, create on holdfast.* to 'plain'@'%'`)
  })
  after(() => server.stop())

  for (const strategy of ['row', 'session'] as const) {
    it(`a server in offline mode, as in a fail-over, is waited for (${strategy})`, async (t) => {
      const place = { host: server.host, port: server.port, user: 'plain', database: 'holdfast' }
      const pool = createPool(place)
      const locks = createLocks(mysql({ pool, strategy }))
      t.after(async () => {
        await server.query('set global offline_mode = 0')
        await locks.close()
        await pool.end()
      })
      await locks.mutex('x').run(() => undefined)
      await server.query('set global offline_mode = 1')
      const refused = new Promise<void>((resolve) => {
        locks.on('waiting', ({ blocked }) => {
          if (/\(3032\): it is in offline mode/.test(String(blocked.error))) resolve()
        })
      })
      const told: unknown[] = []
      const waiting = locks.mutex('x').acquire({ wait: 120_000 })
      const failed = waiting.then(
        () => undefined,
        (error: unknown) => void told.push(error),
      )
      await Promise.race([refused, failed])
      assert.deepEqual(told, [])
      await server.query('set global offline_mode = 0')
      assert.equal(await (await waiting).release(), 'released')
    })
  }

  for (const [what, option] of [
    ['mysql2', { charset: 'BINARY' }],
    ['mariadb', { collation: 'BINARY' }],
  ] as const) {
    it(`readers and permits over connections with the character set binary are refused with the remedy (${what})`, async (t) => {
      const place = { host: server.host, port: server.port, user: 'plain', database: 'holdfast', ...option }
      const pool =
        what === 'mysql2' ? createPool(place) : createMariadb({ ...place, allowPublicKeyRetrieval: true })
      const locks = createLocks(mysql({ pool }))
      t.after(async () => {
        await locks.close()
        await pool.end()
      })
      await locks.mutex('binary').run(() => undefined)
      const refusal = { code: 'BACKEND', message: /\(3144\): .*choose utf8mb4 in the options of the pool/ }
      await assert.rejects(locks.readWrite('binary').read.acquire(), refusal)
      await assert.rejects(locks.semaphore('binary seats', { permits: 2 }).acquire(), refusal)
    })
  }
})

after(leakCheck)
