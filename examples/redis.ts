/**
 * Workers process the jobs of an account one at a time, handed over by push; their writes to Redis carry the token, so that a worker that
 * slept through its lease writes nothing. Needs Redis at REDIS_URL.
 */
import assert from 'node:assert/strict'
import { createLocks, StaleTokenError } from 'holdfast'
import { guardedSet } from 'holdfast/guard'
import { redis } from 'holdfast/redis'
import { Redis } from 'ioredis'

const client = new Redis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
const locks = createLocks(redis({ client }))
const key = 'example:account:42'
await client.del(key)

const add = (points: number) =>
  locks.mutex('account:42').run(async (lease) => {
    const before = Number(await client.get(key))
    await guardedSet(client, { key, value: String(before + points), fence: lease })
    return lease.token
  })
const tokens = await Promise.all(Array.from({ length: 50 }, () => add(2)))
assert.equal(await client.get(key), '100')

// Redis refuses a write with an older token, in the same step that would have written it.
const late = { name: 'account:42', token: Math.min(...tokens) }
await assert.rejects(guardedSet(client, { key, value: '0', fence: late }), StaleTokenError)
console.log('50 times 2 points, none lost, and a late write refused:', await client.get(key))

await locks.close()
client.disconnect()
