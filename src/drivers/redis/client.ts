/**
 * What the driver needs from a Redis client, and the shapes of the clients. Types only, no client is imported: ready-made instances
 * of ioredis 5+ (`Redis`, `Cluster`) and node-redis 4.7+ (client, cluster, sentinel) fit as they are. `ioredis.ts` and
 * `node-redis.ts` turn them into a {@link Connection}; no other file knows which client it is.
 */
import type { Clock } from '../../core/clock.js'
import { describe } from '../../core/name.js'
import type { Emitter } from './events.js'
import { fromIoredis } from './ioredis.js'
import { fromNodeRedis } from './node-redis.js'

export type Reply = string | number | null | readonly Reply[]

/** A command connection to the server or servers. */
export interface Connection {
  /** True: keys of one command must share a slot, and PUBLISH counts only the receivers on one node. */
  readonly cluster: boolean
  /** The prefix that the client itself adds to every key. */
  readonly keyPrefix: string
  /** Closed for good, or never opened: no reply will come. */
  readonly ended: boolean
  /** Why the client is not connected, by its newest error; undefined while it is, or when it has not said. */
  readonly outage: Error | undefined
  /** Begins to listen for such errors. */
  watchOutages(): void
  unwatchOutages(): void
  /** Stays connected to a master until that closes the connection, even if Sentinels have long promoted another server. Absent: no. */
  readonly isSticky?: boolean
  /** Breaks the connection, so that the client looks up its master again. Absent: it does that by itself. */
  reconnect?(): void
  /** A second copy of an answered request may still be in flight to the server. Absent: no. */
  readonly repeats?: boolean
  /** Runs `EVALSHA` or `EVAL`. Never settles if the server never answers: the caller sets time-outs. */
  run(
    how: 'EVALSHA' | 'EVAL',
    script: string,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<Reply>
  /** Like `run`, followed by `WAIT` on the same connection. Resolves with both replies. */
  runAndWait(
    how: 'EVALSHA' | 'EVAL',
    script: string,
    keys: readonly string[],
    args: readonly string[],
    replicas: number,
    timeout: number,
  ): Promise<readonly [Reply, number]>
  /** A command without keys, on any node. */
  command(name: string, ...args: readonly string[]): Promise<Reply>
  /**
   * Matching key names from every master, page by page, including `keyPrefix`. Fails when some slots are served by no node in
   * reach.
   */
  scan(pattern: string): AsyncIterator<readonly string[], void>
  /** Calls back when the connection breaks and when it is usable again. Returns a function that stops that. */
  watch(down: () => void, up: () => void): () => void
  /** A separate connection to the same servers, which the caller closes. */
  duplicate(): Connection
  /** Subscribes to `channel`, again after every reconnect: on a separate connection, or on this one if `dedicated`. */
  listen(channel: string, handler: SubscriptionHandler, setApart: boolean): Subscription
  /** Closes the connection; only for duplicates. */
  close(): void
}

export interface SubscriptionHandler {
  message(text: string): void
  /** Subscribed: everything published from now on arrives, until `down`. */
  up(): void
  down(): void
  /** The server refuses for good, for example because the user lacks channel rights. */
  refused(error: Error): void
}

export interface Subscription {
  close(): void
  /** Like {@link Connection.reconnect}. */
  reconnect?(): void
}

/** An ioredis `Redis` or `Cluster`. */
export interface Ioredis extends Emitter {
  readonly status: string
  call(command: string, ...args: string[]): Promise<unknown>
  duplicate(): Ioredis
  disconnect(): void
}

/** A node-redis client, cluster or sentinel. */
export interface NodeRedis extends Emitter {
  readonly isOpen: boolean
  connect(): Promise<unknown>
  /** Sentinel clients have it since version 6. */
  duplicate?(): NodeRedis
  destroy?(): unknown
  /** Where there is no `destroy`. */
  disconnect?(): unknown
}

/** What `redis({ client })` accepts. */
export type RedisClient = Ioredis | NodeRedis

/** @throws TypeError when `client` is neither */
export function connect(client: RedisClient, clock: Clock, what = 'client'): Connection {
  if (isIoredis(client)) return fromIoredis(client, clock)
  if (isNodeRedis(client)) return fromNodeRedis(client, clock)
  throw new TypeError(
    `${what} must be an instance of ioredis (Redis, Cluster) or of node-redis (createClient, createCluster, createSentinel; not a pool), got ${describe(client)}`,
  )
}

export function isClient(value: unknown): value is RedisClient {
  return isIoredis(value) || isNodeRedis(value)
}

function isIoredis(value: unknown): value is Ioredis {
  return typeof value === 'object' && value !== null && 'call' in value && 'status' in value
}

function isNodeRedis(value: unknown): value is NodeRedis {
  if (typeof value !== 'object' || value === null) return false
  return 'isOpen' in value && 'sendCommand' in value && !('execute' in value)
}
