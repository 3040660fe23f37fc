/**
 * Locks in Redis or Valkey: one round trip to acquire a free lock, one to release it. A release grants the lock to the next
 * waiter in the same step and pushes the grant to its process.
 *
 * ```ts
 * import { Redis } from 'ioredis'
 * import { createLocks } from 'holdfast'
 * import { redis } from 'holdfast/redis'
 *
 * const locks = createLocks(redis({ client: new Redis() }))
 * await locks.mutex('account:42').run(async (lease) => console.log(lease.token))
 * ```
 * @module
 */
export type { Ioredis, NodeRedis, RedisClient } from './client.js'
export { type RedisTraits, redis } from './driver.js'
export type { RedisOptions } from './options.js'
