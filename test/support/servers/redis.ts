// Redis and Valkey as single servers. Groups with a protocol between them: redis-sentinel.ts, redis-cluster.ts.
import type { Flavour, RedisServer } from './redis-node.js'
import { startNode } from './redis-node.js'
import type { Shim } from './shims.js'

export type { Flavour, RedisServer } from './redis-node.js'
export type { Shim } from './shims.js'

/** What survives a restart: nothing · snapshots · the append-only file with this fsync policy. */
export type Persistence = 'none' | 'rdb' | 'aof-always' | 'aof-everysec' | 'aof-never'

/** How to start a server. */
export interface RedisOptions {
  /** Default `redis7`. */
  readonly flavour?: Flavour
  /** Default `none`. */
  readonly persistence?: Persistence
  /** `clock` for `clockJump()`, `power` for `powerCut()` and `unsynced()`. */
  readonly preload?: readonly Shim[]
  /** More arguments, which win over ours: `['--maxmemory', '2mb']`. */
  readonly args?: readonly string[]
  /** Default: a free one. */
  readonly port?: number
  /**
   * Default true: it is told to be a new one (`SET hf:boot new`). Otherwise nothing says that it is not one that has just lost its data, and nothing
   * is granted for the longest ttl after its start.
   */
  readonly isNew?: boolean
}

/** Independent servers. */
export interface RedisGroup extends AsyncDisposable {
  readonly servers: readonly RedisServer[]
  readonly urls: readonly string[]
  stop(): Promise<void>
}

const persistenceArgs: Record<Persistence, readonly string[]> = {
  none: ['--save', '', '--appendonly', 'no'],
  rdb: ['--save', '3600 1', '--appendonly', 'no'],
  'aof-always': ['--save', '', '--appendonly', 'yes', '--appendfsync', 'always'],
  'aof-everysec': ['--save', '', '--appendonly', 'yes', '--appendfsync', 'everysec'],
  'aof-never': ['--save', '', '--appendonly', 'yes', '--appendfsync', 'no'],
}

/**
 * Starts one server on 127.0.0.1 in a private folder and resolves when it serves. A flavour that this machine has not
 * got yet is fetched first.
 *
 * @throws Error when it cannot be fetched or does not come up, with its last words.
 */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const { flavour = 'redis7', persistence = 'none', preload = [], args = [], port, isNew = true } = options
  const server = await startNode({
    flavour,
    role: 'server',
    preload,
    port,
    args: (port, data) => [
      ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', data, '--logfile', ''],
      ...persistenceArgs[persistence],
      // DEBUG SLEEP and friends for tests; and a fresh replica is in sync at once, not after five seconds.
      ...['--enable-debug-command', 'yes', '--repl-diskless-sync-delay', '0'],
      ...args,
    ],
    ready: /Ready to accept connections/,
  })
  if (isNew) await server.cli('SET', 'hf:boot', 'new').catch(() => undefined)
  return server
}

/** Starts `n` servers that know nothing of each other. */
export async function startMany(n: number, options: RedisOptions = {}): Promise<RedisGroup> {
  const servers = await startAll(n, () => startRedis(options))
  const stop = () => stopAll(servers)
  return { servers, urls: servers.map(({ url }) => url), stop, [Symbol.asyncDispose]: stop }
}

/** Starts `n` servers at once; when one fails, the others are stopped and its error is thrown. */
export async function startAll(
  n: number,
  start: (index: number) => Promise<RedisServer>,
): Promise<RedisServer[]> {
  const started = await Promise.allSettled(Array.from({ length: n }, (_, index) => start(index)))
  const servers = started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = started.find((result) => result.status === 'rejected')
  if (!failed) return servers
  await stopAll(servers)
  throw failed.reason
}

export async function stopAll(servers: readonly RedisServer[]): Promise<void> {
  await Promise.all(servers.map((server) => server.stop()))
}
