// An account that may only SELECT: what it can do to the locks of `row`, and what it cannot.
import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { mysql } from 'holdfast/mysql'
import { createPool } from 'mysql2/promise'
import { createLocks } from '../../../src/create-locks.js'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import { peer } from './support/peer.js'

for (const flavour of ['mariadb', 'mysql'] as const) {
  describe(`an account that may only SELECT (${flavour})`, { concurrency: false }, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
      await server.query(`create user 'reader'@'%'`)
      await server.query(`grant select on holdfast.* to 'reader'@'%'`)
    })
    after(() => server.stop())

    const reading = (t: TestContext) => {
      const pool = createPool({
        ...{ host: server.host, port: server.port, user: 'reader', database: 'holdfast' },
        ...{ connectionLimit: 3 },
      })
      const locks = createLocks(mysql({ pool }))
      t.after(async () => {
        await locks.close()
        await pool.end()
      })
      return { pool, locks }
    }

    it('sees holders, waiters and notes, and takes, ends and forges nothing', async (t) => {
      const [a, b] = [peer(t, server.port), peer(t, server.port)]
      const lease = await a.mutex('read').acquire({ ttl: 3_600_000, note: 'a note' })
      const next = b.mutex('read').acquire({ wait: 600_000 })
      await until(async () => (await a.inspect('read')).waiters.length === 1)
      const { pool, locks } = reading(t)
      const seen = await locks.inspect('read')
      assert.deepEqual(
        [seen.holders[0]?.note, seen.holders[0]?.token, seen.waiters.length],
        ['a note', lease.token, 1],
      )
      assert.deepEqual(
        (await locks.list()).map(({ name }) => name),
        ['read'],
      )
      const refused = { code: 'BACKEND', message: /\(1142\)/ }
      await assert.rejects(locks.mutex('read').tryAcquire(), refused)
      await assert.rejects(locks.mutex('free').acquire({ wait: 10_000 }), refused)
      await assert.rejects(locks.forceRelease('read'), refused)
      await assert.rejects(pool.query('update holdfast_locks set top = 0'), { errno: 1142 })
      assert.equal(lease.isHeld, true)
      assert.equal(await lease.release(), 'released')
      await (await next).release()
    })

    it('can keep the row of a lock locked, so that the lock is not renewed or granted meanwhile', async (t) => {
      const [holder, other] = [peer(t, server.port), peer(t, server.port)]
      const lease = await holder.mutex('kept').acquire({ ttl: 3_000 })
      const { pool } = reading(t)
      const connection = await pool.getConnection()
      await connection.beginTransaction()
      await connection.query(`select name from holdfast_locks where name = 'kept' lock in share mode`)
      await until(() => lease.state === 'lost')
      await assert.rejects(other.mutex('kept').tryAcquire(), { code: 'UNAVAILABLE' })
      // No other lock is affected.
      await other.mutex('another').run(() => undefined)
      await connection.rollback()
      connection.release()
      const next = await other.mutex('kept').acquire({ wait: 60_000 })
      assert.ok(next.token > lease.token)
      await next.release()
    })
  })
}

after(leakCheck)
