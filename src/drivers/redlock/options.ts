/** The options of `redlock()`, checked once. */
import { checkKnown } from '../../core/known-options.js'
import { describe } from '../../core/name.js'
import type { RedisClient } from '../redis/client.js'

export interface RedlockOptions {
  /**
   * One ready-made client (ioredis `Redis` or node-redis) for each of three or more independent servers: no replicas of each
   * other, no nodes of a Cluster, no two on one machine. The clients stay yours. An odd number of servers tolerates the most failures for its size.
   */
  readonly clients: readonly RedisClient[]
  /** Prefix of every key. Default `hf:`. */
  readonly prefix?: string
  /** How long one round may wait for the servers' answers, in ms. Default 1_000; to acquire or renew never more than a fifth of the ttl. */
  readonly commandTimeout?: number
  /**
   * Polling interval while another client holds the lock, in ms; each pause is 0.5 to 1.5 times as long. Default 100: a hand-over is
   * announced, so this is only for lost messages.
   */
  readonly retryDelay?: number
  /**
   * The longest ttl any process uses, in ms; a longer one is refused. A server that may have forgotten votes is excluded for this long.
   * Default 60_000.
   */
  readonly maxTtl?: number
  /** What to do when a server may evict locks in use (`maxmemory-policy allkeys-*`). `refuse`: it gets no vote. Default `warn`. */
  readonly eviction?: 'warn' | 'refuse' | 'ignore'
  /** How long a server remembers an unused lock, in ms, after its clock has passed the lock's tokens. Default 600_000. */
  readonly retention?: number
}

export interface Settings {
  readonly prefix: string
  readonly commandTimeout: number
  readonly retryDelay: number
  readonly maxTtl: number
  readonly eviction: 'warn' | 'refuse' | 'ignore'
  readonly retention: number
}

const known: readonly (keyof RedlockOptions)[] = [
  'clients',
  'prefix',
  'commandTimeout',
  'retryDelay',
  'maxTtl',
  'eviction',
  'retention',
]

/** @throws TypeError or RangeError that names the value received */
export function parseOptions(options: RedlockOptions): Settings {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new TypeError(`redlock() takes { clients: [...] }, got ${describe(options)}`)
  }
  checkKnown('redlock()', options, known)
  if (!Array.isArray(options.clients)) {
    throw new TypeError(`redlock() takes { clients: [...] }, got clients: ${describe(options.clients)}`)
  }
  const { clients } = options
  if (clients.length < 3) {
    throw new RangeError(
      `redlock needs at least 3 independent servers, got ${clients.length}; for one server use redis()`,
    )
  }
  for (const [i, client] of clients.entries()) {
    const first = clients.indexOf(client)
    if (first < i)
      throw new RangeError(`redlock: clients ${first} and ${i} are the same; each server has one vote`)
  }
  const prefix = options.prefix ?? 'hf:'
  if (typeof prefix !== 'string' || /[{}\s]/.test(prefix)) {
    throw new RangeError(
      `redlock: prefix must be a string without braces and spaces, got ${describe(prefix)}`,
    )
  }
  const { eviction = 'warn' } = options
  if (!['warn', 'refuse', 'ignore'].includes(eviction)) {
    throw new RangeError(`redlock: eviction must be one of warn, refuse, ignore, got ${describe(eviction)}`)
  }
  return {
    prefix,
    eviction,
    commandTimeout: whole('commandTimeout', options.commandTimeout ?? 1_000, 5, 60_000),
    retryDelay: whole('retryDelay', options.retryDelay ?? 100, 1, 60_000),
    maxTtl: whole('maxTtl', options.maxTtl ?? 60_000, 100, 366 * 86_400_000),
    retention: whole('retention', options.retention ?? 600_000, 1_000, 366 * 86_400_000),
  }
}

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number')
    throw new TypeError(`redlock: ${name} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`redlock: ${name} must be a whole number from ${least} to ${most}, got ${value}`)
  }
  return value
}
