// A server that loads its data for seconds after a restart: leases are renewed as soon as it serves again.
// Second tier because a server loads its data for many seconds.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { redis } from '../../src/drivers/redis/index.js'
import { versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

for (const version of versions)
  test(`a lease outlasts a server that loads its data (${version.name})`, async (t) => {
    // First many small entries, each of which takes a millisecond, then a large one: as it begins to load, the server expects to take for ever.
    const server = await startRedis({
      persistence: 'aof-always',
      args: [
        '--aof-use-rdb-preamble',
        'no',
        '--loading-process-events-interval-bytes',
        '1024',
        '--key-load-delay',
        '1000',
      ],
    })
    t.after(() => server.stop())
    await server.cli('EVAL', 'for i = 1, 3000 do redis.call("SET", "k" .. i, "v") end', '0')
    await server.cli('EVAL', 'redis.call("SET", "large", string.rep("x", 16000000))', '0')
    const { client, start, close } = await version.open({ is: 'single', port: server.port })
    await start()
    const locks = createLocks(redis({ client }), { ttl: 8_000 })
    t.after(async () => {
      await locks.close()
      close()
    })
    const lease = await locks.mutex('x').acquire()
    await server.restart()
    const renewed = () => lease.extend(8_000).then(Boolean, () => false)
    await until(async () => !lease.isHeld || (await renewed()), { within: 20_000 })
    assert.ok(lease.isHeld)
    await lease.release()
  })

after(leakCheck)
