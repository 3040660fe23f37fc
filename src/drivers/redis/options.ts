/** What `redis()` takes, checked once. */
import { describe } from '../../core/name.js'
import type { RedisClient } from './client.js'

export interface RedisOptions {
  /**
   * A ready-made ioredis (`Redis`, `Cluster`) or node-redis (client, cluster, sentinel) instance. It stays yours: nothing
   * on it is changed, and it is not closed.
   */
  readonly client: RedisClient
  /**
   * How grants are pushed to this process: by default over a connection of its own, made with `client.duplicate()` when
   * something is first waited for. A client set apart for it (it stays yours), or `false`: never subscribe, wait by polling.
   */
  readonly subscriber?: RedisClient | false
  /** Before every key and channel. Default `hf:`. No braces. */
  readonly prefix?: string
  /** A grant counts only once so many replicas have it. Default 0. Uses a connection of its own, because WAIT blocks one. */
  readonly replicas?: number
  /** How long a grant may wait for its replicas, in ms. Default 500. */
  readonly replicaTimeout?: number
  /**
   * What to do after a server may have forgotten locks: grant nothing new until all that it could have forgotten have run
   * out. `detected` (default): when the data were written by another server (restart, promotion) or have vanished under
   * this process (FLUSHALL); an empty server that nobody here knew is taken as new. `strict`: that one too, for
   * `maxTtl` after its start. `off`: never; for `appendfsync always` without replicas. In a Cluster a restart is noticed by how long
   * the node has been up, a promotion not at all: see `replicas`.
   */
  readonly quarantine?: 'detected' | 'strict' | 'off'
  /** The longest ttl any process uses, in ms: how long a quarantine lasts. Default 30_000; a longer ttl raises it by itself. */
  readonly maxTtl?: number
  /** What to do when the server may evict locks in use (`maxmemory-policy allkeys-*`). Default `warn`. */
  readonly eviction?: 'warn' | 'refuse' | 'ignore'
  /** How long one request may go unanswered, in ms. Default 2_000. Passing trouble is retried for as long as the wait lasts. */
  readonly commandTimeout?: number
  /** How long a waiter that was handed the lock holds it before its process has said a word, in ms. Default 1_000. */
  readonly claim?: number
  /** How long the server remembers a lock nobody uses, in ms. Default 600_000. */
  readonly retention?: number
}

export interface Settings {
  readonly subscriber: RedisClient | false | undefined
  readonly prefix: string
  readonly replicas: number
  readonly replicaTimeout: number
  readonly quarantine: 'detected' | 'strict' | 'off'
  readonly maxTtl: number
  readonly eviction: 'warn' | 'refuse' | 'ignore'
  readonly commandTimeout: number
  readonly claim: number
  readonly retention: number
}

/** @throws TypeError, RangeError with the value got */
export function settingsOf(options: RedisOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`redis() takes options such as { client }, got ${describe(options)}`)
  }
  return {
    subscriber: options.subscriber,
    prefix: prefixOf(options.prefix ?? 'hf:'),
    replicas: whole('replicas', options.replicas ?? 0, 0, 100),
    replicaTimeout: whole('replicaTimeout', options.replicaTimeout ?? 500, 1, 60_000),
    quarantine: oneOf('quarantine', options.quarantine ?? 'detected', ['detected', 'strict', 'off']),
    maxTtl: whole('maxTtl', options.maxTtl ?? 30_000, 1, longest),
    eviction: oneOf('eviction', options.eviction ?? 'warn', ['warn', 'refuse', 'ignore']),
    commandTimeout: whole('commandTimeout', options.commandTimeout ?? 2_000, 10, 600_000),
    claim: whole('claim', options.claim ?? 1_000, 50, 60_000),
    retention: whole('retention', options.retention ?? 600_000, 1_000, longest),
  }
}

/** A year, in ms: longer times are a mistake of units. */
const longest = 366 * 24 * 3_600_000

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number')
    throw new TypeError(`redis: ${name} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`redis: ${name} must be a whole number from ${least} to ${most}, got ${value}`)
  }
  return value
}

function oneOf<T extends string>(name: string, value: T, all: readonly T[]): T {
  if (!all.includes(value)) {
    throw new RangeError(`redis: ${name} must be one of ${all.join(', ')}, got ${describe(value)}`)
  }
  return value
}

function prefixOf(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError(`redis: prefix must be a string, got ${describe(value)}`)
  if (/[{}\s]/.test(value)) {
    throw new RangeError(
      `redis: prefix must have no braces and no spaces, got ${describe(value)}; braces choose the Cluster slot`,
    )
  }
  return value
}
