// One process's worth of holdfast on a server: a client of its own, the driver, the locks. Everything is closed at the end
// of the test.
import type { TestContext } from 'node:test'
import { Redis } from 'ioredis'
import type { Clock } from '../../../../src/core/clock.js'
import type { Driver, Env } from '../../../../src/core/driver.js'
import { systemEnv } from '../../../../src/core/engine.js'
import { createLocks, type Locks } from '../../../../src/create-locks.js'
import {
  type RedisClient,
  type RedisOptions,
  type RedisTraits,
  redis,
} from '../../../../src/drivers/redis/index.js'
import type { RedisServer } from '../../../support/servers/redis.js'
import { until } from '../../../support/until.js'

export interface Peer {
  readonly client: Redis
  readonly driver: Driver<RedisTraits>
  readonly locks: Locks
  close(): Promise<void>
}

export interface PeerOptions extends Partial<Omit<RedisOptions, 'client'>> {
  /** Options of the ioredis client. */
  readonly ioredis?: Readonly<Record<string, unknown>>
  readonly env?: Partial<Env>
  /** The default ttl of its locks. */
  readonly ttl?: number
  /** Instead of an ioredis client to `port`. */
  readonly client?: RedisClient & { disconnect(): void }
}

/** @param t closes it when the test ends */
export function peer(
  t: TestContext,
  port: number,
  { ioredis, env, ttl, client, ...options }: PeerOptions = {},
): Peer {
  const own = (client ??
    new Redis(port, '127.0.0.1', {
      retryStrategy: (times: number) => Math.min(20 * times, 200),
      // Its timer outlives it by so much when the connection is gone already.
      disconnectTimeout: 100,
      ...ioredis,
    } as object)) as Redis
  own.on('error', () => undefined)
  const made: { driver?: Driver<RedisTraits> } = {}
  const locks = createLocks(
    (given) => {
      made.driver = redis({ client: own, maxTtl: 600_000, ...options })({ ...given, ...env })
      return made.driver
    },
    ttl === undefined ? {} : { ttl },
  )
  const { driver } = made
  if (driver === undefined) throw new Error('createLocks made no driver')
  const close = async () => {
    await locks.close()
    own.disconnect()
  }
  t.after(close)
  return { client: own, driver, locks, close }
}

/** A driver alone, for tests that speak to it message by message. */
export function driverOf(t: TestContext, port: number, options: PeerOptions = {}): Peer {
  return peer(t, port, { ...options, env: { ...systemEnv(), ...options.env } })
}

/** `of` are queued for `name` at this server, and each has said where it can be reached. */
export async function reachable(server: RedisServer, name: string, of: number): Promise<void> {
  await until(async () => {
    const all = (await server.cli('HGETALL', `hf:{${name}}`)) as string[]
    const records = all.filter((_, i) => all[i - 1]?.startsWith('w:'))
    return records.length === of && records.every((record) => record.includes(' hf:c:'))
  })
}

/**
 * A clock whose timers never ring when they are set for later than in three seconds. Who waits then does not look by itself, as it
 * otherwise does every five: it continues only because it is told to.
 */
export function withoutLooking(clock: Clock = systemEnv().clock): Clock {
  return {
    ...clock,
    at: (time, fn, options) => (time - clock.now() > 3_000 ? () => {} : clock.at(time, fn, options)),
  }
}

/** How often each command was called by clients since the last look; scripts' own calls are left out. */
export async function commands(client: Redis): Promise<Record<string, number>> {
  const stats = await client.info('commandstats')
  const counts: Record<string, number> = {}
  for (const [, name = '', calls] of stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    if (!inScripts.has(name)) counts[name] = Number(calls)
  }
  await client.config('RESETSTAT')
  return counts
}

/** What only scripts of ours call, and what looking costs. */
const inScripts = new Set([
  ...[
    'time',
    'hmget',
    'hset',
    'hget',
    'hdel',
    'hincrby',
    'pexpire',
    'persist',
    'get',
    'set',
    'del',
    'exists',
  ],
  ...['zadd', 'zrem', 'zrange', 'zrevrange', 'zrangebyscore', 'zrank', 'zscore', 'publish', 'pubsub|numsub'],
  ...['info', 'config|resetstat', 'client|setinfo', 'hello'],
])

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
