// What a user who may only read the locks' keys can do, where Redis has users.
// Second tier because it runs every command that could change a lock.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { createLocks } from '../../../src/create-locks.js'
import { redis } from '../../../src/drivers/redis/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'

const server = await startRedis()
after(() => server.stop())
await server.cli(
  'ACL',
  'SETUSER',
  'reader',
  'on',
  '>pw',
  '%R~hf:*',
  'resetchannels',
  '+@read',
  '+@connection',
  '-@admin',
)

const connect = (login: { username?: string; password?: string } = {}) =>
  new Redis(server.port, '127.0.0.1', { ...login, maxRetriesPerRequest: 1 })

test('a user with read access sees the queue, and changes, wakes and disconnects nobody', async (t) => {
  const client = connect()
  const reading = connect({ username: 'reader', password: 'pw' })
  const locks = createLocks(redis({ client }))
  const narrow = createLocks(redis({ client: reading, quarantine: 'off' }))
  t.after(async () => {
    await Promise.all([locks.close(), narrow.close()])
    client.disconnect()
    reading.disconnect()
  })
  const lease = await locks.mutex('a').acquire({ ttl: 30_000, note: 'a note' })
  const waits = locks.mutex('a').acquire({ ttl: 30_000, wait: 60_000 })
  const key = 'hf:{a}'
  const seen = JSON.stringify(await reading.hgetall(key))
  assert.match(seen, /a note/)
  const refused: readonly (readonly [command: string, ...words: (string | number)[]])[] = [
    ['DEL', key],
    ['UNLINK', key],
    ['HSET', key, 'x', '1'],
    ['HDEL', key, 'x'],
    ['PEXPIRE', key, 1],
    ['PERSIST', key],
    ['RENAME', key, 'hf:{b}'],
    ['RESTORE', 'hf:{b}', 0, ''],
    ['COPY', key, 'hf:{b}'],
    ['SET', 'hf:boot', 'new'],
    ['EVAL', "return redis.call('DEL', KEYS[1])", 1, key],
    ['EVAL_RO', "return redis.call('HGETALL', KEYS[1])", 1, key],
    ['EVALSHA', 'f'.repeat(40), 1, key],
    ['FCALL', 'f', 1, key],
    ['SCRIPT', 'FLUSH'],
    ['FUNCTION', 'FLUSH'],
    ['PUBLISH', 'hf:c:x', 'x'],
    ['SUBSCRIBE', 'hf:c:x'],
    ['CLIENT', 'KILL', 'TYPE', 'normal'],
    ['CLIENT', 'PAUSE', 1_000],
    ['FLUSHALL'],
    ['SWAPDB', 0, 1],
    ['CONFIG', 'SET', 'maxmemory', '1'],
    ['DEBUG', 'SLEEP', 1],
    ['SHUTDOWN', 'NOSAVE'],
    ['REPLICAOF', '127.0.0.1', 1],
    ['MONITOR'],
    ['ACL', 'SETUSER', 'reader', '+@all'],
    ['GET', 'another'],
  ]
  for (const [command, ...words] of refused)
    await assert.rejects(reading.call(command, ...words), /NOPERM/, command)
  await assert.rejects(narrow.mutex('b').acquire({ wait: 60_000 }), { code: 'BACKEND', message: /NOPERM/ })
  assert.ok((await lease.extend()) > 0)
  assert.equal(await lease.release(), 'released')
  assert.equal(await (await waits).release(), 'released')
})

after(leakCheck)
