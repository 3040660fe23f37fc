// H96: the lock is held, and the value read is older than the lock.
// Second tier because it repeats on both servers what the database does, not what the locks do.
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { type OpenHost, openHost } from '../../examples/stories/run-story.js'
import {
  fromCache,
  lockFirst,
  snapshotFirst,
  snapshotFirstWithVersion,
  start,
  tables,
} from '../../examples/stories/stale-read.js'
import { type Host, numberFrom } from '../../examples/stories/story.js'
import { leakCheck } from '../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../support/servers/mysql.js'
import { until } from '../support/until.js'

for (const flavour of ['mariadb', 'mysql'] satisfies Flavour[]) {
  describe(`values older than the lock, on ${flavour}`, { concurrency: false }, () => {
    let server: MysqlServer
    let one: OpenHost
    let two: OpenHost
    before(async () => {
      server = await startMysql({ flavour })
    })
    beforeEach(async () => {
      one = openHost(server.url, 'one')
      two = openHost(server.url, 'two')
      await one.db.run('drop table if exists accounts', [])
      for (const statement of tables) await one.db.run(statement, [])
    })
    afterEach(async () => {
      await one.close()
      await two.close()
    })
    after(() => server.stop())

    const points = () => numberFrom(one.db, 'select points from accounts where id = 42')

    /** `way` begins while `two` holds the lock, and gets it after `two` has changed the row. */
    async function behind(way: (host: Host, change: number) => Promise<void>): Promise<void> {
      const lease = await two.locks.mutex('account:42').acquire()
      const late = way(one, -30)
      late.catch(() => undefined)
      await until(async () => (await two.inspect('account:42')).waiters.length === 1)
      await two.db.run('update accounts set points = points + 50, version = version + 1 where id = 42', [])
      await lease.release()
      await late
    }

    test('H96: a snapshot taken before the lock overwrites later changes', async () => {
      await behind(snapshotFirst)
      assert.equal(await points(), start - 30)
    })

    test('H96: the lock first, then the transaction: nothing is lost', async () => {
      await behind(lockFirst)
      assert.equal(await points(), start + 50 - 30)
    })

    test('H96: a version check in the write refuses it', async () => {
      await assert.rejects(behind(snapshotFirstWithVersion), { code: 'VERSION_CONFLICT' })
      assert.equal(await points(), start + 50)
    })

    test('H96: a cache, or a lagging replica, loses updates under the lock as well', async () => {
      const [mine, theirs] = [{}, {}]
      await fromCache(one, mine, -30)
      await fromCache(two, theirs, 50)
      await fromCache(one, mine, -30)
      assert.equal(await points(), start - 60)
    })
  })
}

after(leakCheck)
