// Operators' requests beside a crowd of waiters in the same process: they do not queue behind it.
// Second tier because hundreds wait in it.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { mysql } from 'holdfast/mysql'
import { createPool } from 'mysql2/promise'
import { createLocks } from '../../../src/create-locks.js'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { observed } from './support/observed.js'
import { peer } from './support/peer.js'

const names = Array.from({ length: 200 }, (_, i) => `crowded ${i}`)

for (const flavour of ['mariadb', 'mysql'] as const) {
  describe(`${names.length} waiters of one process (${flavour})`, { concurrency: false }, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
    })
    after(() => server.stop())

    for (const silent of [false, true]) {
      it(`do not go before an operator's request${silent ? ' to a server that does not answer' : ''}`, async (t) => {
        const holder = peer(t, server.port, { size: 10 })
        const held = await Promise.all(
          names.map((name) => holder.mutex(name).acquire({ ttl: 3_600_000, wait: 60_000 })),
        )
        const pool = createPool({ uri: server.url, connectionLimit: 10 })
        let borrowed = 0
        let sent: string[] = []
        const locks = createLocks(
          mysql({
            pool: observed(pool, { borrowed: () => borrowed++, sent: (sql) => sent.push(sql) }),
            commandTimeout: silent ? 500 : 60_000,
          }),
        )
        t.after(async () => {
          server.resume()
          await locks.close()
          await pool.end()
        })
        // It has reported its time: from now on a claim begins with its own statement.
        await locks.mutex('first').run(() => undefined)
        const stop = new AbortController()
        if (silent) server.pause()
        const all = Promise.allSettled(
          names.map((name) => locks.mutex(name).acquire({ signal: stop.signal, wait: 3_600_000 })),
        )
        // Each has queued its first statement; four of these are on their way.
        await turn()
        const [first, second] = names as [string, string]
        if (silent) {
          borrowed = 0
          await assert.rejects(locks.inspect(first), { code: 'UNAVAILABLE' })
          await assert.rejects(locks.list('crowded'), { code: 'UNAVAILABLE' })
          assert.ok(borrowed < 100, `${borrowed} statements of waiters were given up before`)
        } else {
          const before = async (request: () => Promise<unknown>, mark: RegExp) => {
            sent = []
            await request()
            return sent.findIndex((sql) => mark.test(sql))
          }
          const queue = /ORDER BY w\.id LIMIT \d+$/
          // At most as many as were on their way, and the first statement of a connection.
          const places = [
            await before(() => locks.inspect(first), queue),
            await before(() => locks.list('crowded'), queue),
            await before(() => locks.forceRelease(second), /AS orphaned, l\.name\n/),
          ]
          assert.ok(
            places.every((place) => place >= 0 && place < 10),
            `they were sent behind ${places} statements of waiters`,
          )
        }
        server.resume()
        stop.abort()
        await all
        await Promise.all(held.map((lease) => lease.release()))
      })
    }
  })
}

after(leakCheck)
