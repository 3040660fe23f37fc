// A client that is pointed at a replica: it grants nothing, not even where it takes writes, for its master grants the same locks.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { redis } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'

const master = await startRedis()
const args = ['--replicaof', `${master.host} ${master.port}`]
const replica = await startRedis({ args, isNew: false })
after(() => Promise.all([master.stop(), replica.stop()]))

function start(t: TestContext, port: number): Locks {
  const client = new Redis(port)
  client.on('error', () => undefined)
  const driver = redis({ client, maxTtl: 600_000, commandTimeout: 60_000 })
  const locks = createLocks(driver, { ttl: 600_000 }) as unknown as Locks
  t.after(async () => {
    await locks.close()
    client.disconnect()
  })
  return locks
}

for (const readOnly of ['yes', 'no'])
  test(`a replica grants nothing, and the error says so (replica-read-only ${readOnly})`, async (t) => {
    await replica.cli('CONFIG', 'SET', 'replica-read-only', readOnly)
    const lease = await start(t, master.port).mutex('x').acquire()
    const offset = async () => /master_repl_offset:(\d+)/.exec(String(await master.cli('INFO')))?.[1]
    await until(async () =>
      String(await replica.cli('INFO')).includes(`slave_repl_offset:${await offset()}\r`),
    )
    const locks = start(t, replica.port)
    const refused = {
      code: 'BACKEND',
      message: /READONLY.*this is a replica: point the client at the master/,
    }
    await assert.rejects(locks.mutex('free').tryAcquire(), refused)
    await assert.rejects(locks.mutex('x').tryAcquire(), refused)
    await assert.rejects(locks.mutex('free').acquire({ wait: 1_000 }), refused)
    assert.equal(await lease.release(), 'released')
  })

after(leakCheck)
