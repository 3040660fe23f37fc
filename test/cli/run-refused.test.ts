// A store that answers every renewal with a refusal: the command is terminated before its lease ends, and the message says why.
// Second tier because a lease has to run out.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'
import { bench } from './support/cli.js'

const server = await startRedis()
const operator = new Redis(server.port, server.host)
const b = bench(server.url)

after(async () => {
  operator.disconnect()
  await server.stop()
  b.close()
})

test('the refusal of a read-only store is quoted', async () => {
  const run = b.start('run', 'x', '--ttl', '10s', '--', 'sh', '-c', 'echo in; exec sleep 600')
  await until(() => run.stdout() === 'in\n')
  await operator.config('SET', 'min-replicas-to-write', '1')
  const { code, stderr } = await run.ended
  assert.equal(code, 76)
  assert.match(
    stderr,
    /^holdfast: the lock is not renewed: redis: the server refused \(NOREPLICAS\): .*; the command will be stopped in .* unless it is\n/,
  )
})

after(leakCheck)
