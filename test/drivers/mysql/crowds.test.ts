// Second tier because hundreds wait in it, on both servers.
// Many waiters of one process on one name: the statements they cost while they wait and when the lock is handed over.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createPool } from 'mysql2/promise'
import { mysql } from '../../../src/drivers/mysql/index.js'
import { createLocks } from '../../../src/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import { peer, statements } from './support/peer.js'

const many = 300

for (const flavour of ['mariadb', 'mysql'] as const) {
  test(`${many} waiters of one process: the first two ask, one statement refreshes the others (${flavour})`, async (t) => {
    const server = await startMysql({ flavour })
    t.after(() => server.stop())
    const pool = createPool(server.url)
    const locks = createLocks(mysql({ pool, commandTimeout: 60_000 }), { ttl: 600_000, wait: 600_000 })
    const holder = peer(t, server.port)
    const lease = await holder.mutex('crowd').acquire({ ttl: 600_000 })
    let served = 0
    const stop = new AbortController()
    const all = Array.from({ length: many }, () =>
      locks.mutex('crowd').run(() => void served++, { fair: true, signal: stop.signal }),
    )
    const ended = Promise.allSettled(all)
    await until(async () => (await holder.inspect('crowd')).waiters.length === many, { within: 60_000 })
    // Each enters and looks. From then on, only two of them look; before, the rest each did so every 300 ms at least, and refreshed its entry.
    const began = performance.now()
    const idle = await statements(server, () => new Promise((resolve) => setTimeout(resolve, 4_000)))
    const seconds = (performance.now() - began) / 1000
    const sum = (all: Record<string, number>) => Object.values(all).reduce((total, one) => total + one, 0)
    assert.ok(sum(idle) / seconds < 60, `${JSON.stringify(idle)} in ${seconds} s`)
    // All are still counted as alive, though none of most has said so by itself.
    await until(async () => (await holder.inspect('crowd')).waiters.length === many)
    // An operator removes the entry of one that does not look: it notices, and enters again at the end.
    const newest = async () => {
      const rows = await server.query('select id from holdfast_waiters order by id desc')
      return rows.map((row) => Number(row['id']))
    }
    const before = await newest()
    await server.query(`delete from holdfast_waiters where id = ${before[many / 2]}`)
    await until(async () => (await newest()).length === many)
    assert.ok(Number((await newest())[0]) > Number(before[0]))
    const passing = await statements(server, async () => {
      await lease.release()
      await until(() => served >= 100, { within: 60_000 })
    })
    assert.ok(sum(passing) / served <= 16, `${JSON.stringify(passing)} for ${served} hand-overs`)
    stop.abort()
    await ended
    await until(async () => (await holder.inspect('crowd')).waiters.length === 0)
    await locks.close()
    await pool.end()
  })
}

after(leakCheck)
