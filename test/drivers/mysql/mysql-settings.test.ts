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
    it(`readers and permits work over connections with the character set binary (${what})`, async (t) => {
      const place = { host: server.host, port: server.port, user: 'plain', database: 'holdfast' }
      const set = { ...place, ...option }
      const pool =
        what === 'mysql2' ? createPool(set) : createMariadb({ ...set, allowPublicKeyRetrieval: true })
      const plain = createPool(place)
      const [locks, others] = [createLocks(mysql({ pool })), createLocks(mysql({ pool: plain }))]
      t.after(async () => {
        await Promise.all([locks.close(), others.close()])
        await Promise.all([pool.end(), plain.end()])
      })
      const both = [
        [locks, others],
        [others, locks],
      ] as const
      for (const [a, b] of both) {
        const first = await a.readWrite('binary').read.acquire()
        const second = await b.readWrite('binary').read.acquire()
        await first.extend()
        assert.equal((await a.inspect('binary')).holders.length, 2)
        assert.equal(await first.release(), 'released')
        assert.equal(await a.readWrite('binary').write.tryAcquire(), undefined)
        assert.equal(await second.release(), 'released')
        const seat = await a.semaphore('binary seats', { permits: 1 }).acquire()
        assert.equal(await b.semaphore('binary seats', { permits: 1 }).tryAcquire(), undefined)
        assert.equal(await seat.release(), 'released')
      }
    })
  }
})

after(leakCheck)
