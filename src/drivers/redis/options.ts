/** The options of `redis()`, checked once. */
import { checkKnown } from '../../core/known-options.js'
import { describe } from '../../core/name.js'
import { isClient, type RedisClient } from './client.js'

export interface RedisOptions {
  /**
   * A ready-made ioredis (`Redis`, `Cluster`) or node-redis (client, cluster, sentinel) instance. It stays yours: the driver
   * changes nothing on it and does not close it.
   */
  readonly client: RedisClient
  /**
   * The connection over which grants are pushed to this process. Default: a separate one, made with `client.duplicate()` at the
   * first wait. Otherwise a client reserved for this (it stays yours), or `false`: never subscribe, wait by polling.
   */
  readonly subscriber?: RedisClient | false
  /** Prefix of every key and channel. Default `hf:`. No braces. */
  readonly prefix?: string
  /** How many replicas must have a grant before it counts. Default 0. Uses a separate connection, because WAIT blocks one. */
  readonly replicas?: number
  /** How long a grant may wait for its replicas, in ms. Default 500. */
  readonly replicaTimeout?: number
  /**
   * When to quarantine a server that may have forgotten locks: it grants nothing new until every lock it could have forgotten has expired.
   * `strict` (default): for every process, so a server without a marker that has just started, or where FLUSHALL was called, grants
   * nothing for `maxTtl` (`SET <prefix>boot new` declares it new). `detected`: a process that has not met the server before takes one
   * without a marker for new; for tests and disposable servers. `off`: never. In a Cluster, every node is judged by itself, nobody can declare
   * it new, and `detected` is the same as `off`.
   */
  readonly quarantine?: 'strict' | 'detected' | 'off'
  /**
   * The longest ttl, in ms, and the length of a quarantine. A longer ttl is refused, because after a loss of data no process could know of it.
   * Use the same value in every process. Default 30_000.
   */
  readonly maxTtl?: number
  /** What to do when the server may evict locks in use (`maxmemory-policy allkeys-*`). Default `warn`. */
  readonly eviction?: 'warn' | 'refuse' | 'ignore'
  /** How long one request may go unanswered, in ms. Default 2_000. Temporary failures are retried for as long as the wait lasts. */
  readonly commandTimeout?: number
  /** How long the server remembers an unused lock, in ms. Default 600_000. */
  readonly retention?: number
}

export interface Settings {
  readonly subscriber: RedisClient | false | undefined
  readonly prefix: string
  readonly replicas: number
  readonly replicaTimeout: number
  readonly quarantine: 'strict' | 'detected' | 'off'
  readonly maxTtl: number
  readonly eviction: 'warn' | 'refuse' | 'ignore'
  readonly commandTimeout: number
  readonly retention: number
}

const known: readonly (keyof RedisOptions)[] = [
  'client',
  'subscriber',
  'prefix',
  'replicas',
  'replicaTimeout',
  'quarantine',
  'maxTtl',
  'eviction',
  'commandTimeout',
  'retention',
]

/** @throws TypeError or RangeError that names the value received */
export function parseOptions(options: RedisOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`redis() takes options such as { client }, got ${describe(options)}`)
  }
  if (isClient(options))
    throw new TypeError('redis() takes options: redis({ client }) instead of redis(client)')
  checkKnown('redis()', options, known)
  return {
    subscriber: options.subscriber,
    prefix: parsePrefix(options.prefix ?? 'hf:'),
    replicas: whole('replicas', options.replicas ?? 0, 0, 100),
    replicaTimeout: whole('replicaTimeout', options.replicaTimeout ?? 500, 1, 60_000),
    quarantine: parseChoice('quarantine', options.quarantine ?? 'strict', ['strict', 'detected', 'off']),
    maxTtl: whole('maxTtl', options.maxTtl ?? 30_000, 1, maxTime),
    eviction: parseChoice('eviction', options.eviction ?? 'warn', ['warn', 'refuse', 'ignore']),
    commandTimeout: whole('commandTimeout', options.commandTimeout ?? 2_000, 10, 600_000),
    retention: whole('retention', options.retention ?? 600_000, 1_000, maxTime),
  }
}

/** A year, in ms: a longer time is a mistake of units. */
const maxTime = 366 * 24 * 3_600_000

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number')
    throw new TypeError(`redis: ${name} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`redis: ${name} must be a whole number from ${least} to ${most}, got ${value}`)
  }
  return value
}

function parseChoice<T extends string>(name: string, value: T, all: readonly T[]): T {
  if (!all.includes(value)) {
    throw new RangeError(`redis: ${name} must be one of ${all.join(', ')}, got ${describe(value)}`)
  }
  return value
}

function parsePrefix(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError(`redis: prefix must be a string, got ${describe(value)}`)
  if (/[{}\s]/.test(value)) {
    throw new RangeError(
      `redis: prefix must have no braces and no spaces, got ${describe(value)}; braces choose the Cluster slot`,
    )
  }
  if (value.startsWith('-'))
    throw new RangeError(`redis: prefix must not begin with a hyphen, got ${describe(value)}`)
  return value
}
