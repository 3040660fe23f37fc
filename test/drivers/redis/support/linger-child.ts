// A process of its own that takes one lock with `linger`: each message `acquire`, `try` or `release` is answered with a token, or 0.
import { Redis } from 'ioredis'
import { redis } from '../../../../src/drivers/redis/index.js'
import { createLocks, type Lease } from '../../../../src/index.js'

const [port = '', name = '', ttl = ''] = process.argv.slice(2)
const client = new Redis(Number(port), '127.0.0.1')
client.on('error', () => undefined)
const locks = createLocks(redis({ client }), { ttl: Number(ttl), linger: 600_000 })
const lock = locks.mutex(name)
let lease: Lease | undefined

process.on('message', async (order: 'acquire' | 'try' | 'release') => {
  if (order === 'release') await lease?.release()
  else lease = order === 'try' ? await lock.tryAcquire() : await lock.acquire()
  process.send?.(lease?.token ?? 0)
})
process.on('disconnect', () => process.exit())
