// Requests whose replies arrive while the event loop is blocked, for longer than a driver's own time limits: stalled-loop.test.ts has
// the shorter blocks.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { local } from '../../src/drivers/local/index.js'
import { mysql } from '../../src/drivers/mysql/index.js'
import { postgres } from '../../src/drivers/postgres/index.js'
import { redis } from '../../src/drivers/redis/index.js'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import {
  countsForCachedLocks,
  countsForCalls,
  countsForReleases,
  countsForRenewals,
  countsForWaits,
  type Opened,
  withScene,
} from './support/stalled-loop.js'

const stores: Record<string, () => Promise<{ readonly port: number; stop(): Promise<void> }>> = {
  redis: startRedis,
  postgres: startPostgres,
  'postgres, session': startPostgres,
  mysql: startMysql,
  'mysql, session': startMysql,
}
const open: Record<string, (port: number) => Opened> = {
  redis: (port) => {
    const client = new Redis(port, '127.0.0.1')
    return { driver: redis({ client, maxTtl: 100_000 }), end: () => client.disconnect() }
  },
  // Time passes at once here: without this, names are deleted in the background, and their reply may be the one that is held.
  postgres: (port) => {
    const pool = new Pool({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
    return { driver: postgres({ pool, retention: Number.POSITIVE_INFINITY }), end: () => pool.end() }
  },
  'postgres, session': (port) => {
    const pool = new Pool({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
    const driver = postgres({ pool, strategy: 'session', retention: Number.POSITIVE_INFINITY })
    return { driver, end: () => pool.end() }
  },
  mysql: (port) => {
    const pool = createPool({ host: '127.0.0.1', port, user: 'root', database: 'holdfast' })
    return { driver: mysql({ pool }), end: () => pool.end() }
  },
  'mysql, session': (port) => {
    const pool = createPool({ host: '127.0.0.1', port, user: 'root', database: 'holdfast' })
    return { driver: mysql({ pool, strategy: 'session' }), end: () => pool.end() }
  },
}

for (const [name, start] of Object.entries(stores))
  describe(name, async () => {
    const server = await start()
    after(() => server.stop())
    const opened = open[name] as (port: number) => Opened
    for (const [what, counts] of Object.entries({
      'extend() and health()': countsForCalls,
      'renewals that are sent by themselves': countsForRenewals,
      'a wait': countsForWaits,
      'release() and inspect()': countsForReleases,
    }))
      test(what, () => withScene(server.port, opened, counts))
    // Of the two only redis caches locks.
    if (name === 'redis')
      test('a single attempt at a cached lock', () => countsForCachedLocks(opened(server.port)))
  })

test('local: a single attempt at a cached lock', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-stalled-'))
  await using _ = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true }) }
  await countsForCachedLocks({ driver: local({ directory }), end: () => undefined })
})

after(leakCheck)
