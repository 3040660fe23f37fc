/**
 * One lock over three or more independent Redis or Valkey servers, held by a majority of their votes. Its token is the ballot
 * that won the votes, so unlike a lock of the plain algorithm it can be fenced.
 *
 * ```ts
 * import { Redis } from 'ioredis'
 * import { createLocks } from 'holdfast'
 * import { redlock } from 'holdfast/redlock'
 *
 * const locks = createLocks(redlock({ clients: [new Redis(7001), new Redis(7002), new Redis(7003)] }))
 * await locks.mutex('account:42').run(async (lease) => console.log(lease.token))
 * ```
 * @module
 */
export type { RedisClient } from '../redis/client.js'
export { type RedlockTraits, redlock } from './driver.js'
export type { RedlockOptions } from './options.js'
