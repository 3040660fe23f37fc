/**
 * What the driver needs of a Redis client, and what the clients look like. Types only: no client is imported, ready-made
 * instances of ioredis 5+ (`Redis`, `Cluster`) and node-redis 5+ (client, cluster, sentinel) fit as they are.
 * `ioredis.ts` and `node-redis.ts` make a {@link Connection} of them; nothing else knows which it is.
 */
import type { Clock } from '../../core/clock.js'
import { describe } from '../../core/name.js'
import { fromIoredis } from './ioredis.js'
import { fromNodeRedis } from './node-redis.js'

export type Reply = string | number | null | readonly Reply[]

/** One way to the server or servers, for commands. */
export interface Connection {
  /** True: keys of one command must share a slot, and PUBLISH counts only the receivers on one node. */
  readonly cluster: boolean
  /** What the client itself puts before every key. */
  readonly keyPrefix: string
  /** Closed for good, or never opened: nothing will be answered. */
  readonly ended: boolean
  /** `EVALSHA` or `EVAL`. Never settles if the server never answers: time-outs are the caller's. */
  run(
    how: 'EVALSHA' | 'EVAL',
    script: string,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<Reply>
  /** The same followed by `WAIT` on the same connection. Resolves with both answers. */
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
  /** Key names that match, from every master, page by page; `keyPrefix` still before them. */
  scan(pattern: string): AsyncIterable<readonly string[]>
  /** Tells when the connection goes away and when it is usable again. Returns what stops it. */
  watch(down: () => void, up: () => void): () => void
  /** A connection of one's own to the same servers, which the caller closes. */
  duplicate(): Connection
  /** Listens on `channel`, again after every reconnect: on a connection of its own, or on this one if it is `set apart` for it. */
  listen(channel: string, ear: Ear, setApart: boolean): Listening
  /** Closes it; only for duplicates. */
  close(): void
}

export interface Ear {
  message(text: string): void
  /** Subscribed: everything published from now on is heard, until `down`. */
  up(): void
  down(): void
  /** The server refuses for good, for example for want of channel rights. */
  refused(error: Error): void
}

export interface Listening {
  /** May messages of one connection be told from those of the next? If not, no push may be trusted with a deadline. */
  readonly exact: boolean
  close(): void
}

interface Emitter {
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
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
  duplicate(): NodeRedis
  destroy(): unknown
}

/** Whatever `redis({ client })` takes. */
export type RedisClient = Ioredis | NodeRedis

/** @throws TypeError when it is neither */
export function connect(client: RedisClient, clock: Clock, what = 'client'): Connection {
  if (typeof client === 'object' && client !== null) {
    if ('call' in client && 'status' in client) return fromIoredis(client, clock)
    if ('isOpen' in client && 'sendCommand' in client && !('execute' in client))
      return fromNodeRedis(client, clock)
  }
  throw new TypeError(
    `${what} must be an instance of ioredis (Redis, Cluster) or of node-redis (createClient, createCluster, createSentinel; not a pool), got ${describe(client)}`,
  )
}
