/** ioredis clients that give up soon: a set-up check finishes within seconds, or not at all. */
import { clusterTls, eachNode } from '../ioredis-options.js'
import type { RedisAddress } from '../redis-place.js'
import { hostPort } from '../url.js'
import { noAnswer } from './check.js'

export type Ioredis = Pick<typeof import('ioredis'), 'Redis' | 'Cluster'>

/** The used part of a client. */
export interface RedisConnection {
  /** @throws Error with the reason for the missing connection, if that is why it failed */
  call(command: string, ...args: string[]): Promise<unknown>
  close(): void
}

/** Timeout of a connection attempt and of a reply, in ms. */
const timeout = 3_000

/** One retry after a moment, then none. */
const retryDelay = (times: number) => (times > 1 ? null : 100)

/** Without `protocol`: replies have the form of the Redis 2 protocol. */
type RedisOptions = Omit<import('ioredis').RedisOptions, 'protocol' | 'replyMapping'>

/** @param options address and login */
export function redisAt({ Redis }: Ioredis, options: RedisOptions): RedisConnection {
  const settings: RedisOptions = {
    ...{ connectTimeout: timeout, commandTimeout: timeout, retryStrategy: retryDelay },
    ...{ sentinelCommandTimeout: timeout, sentinelRetryStrategy: retryDelay },
    // If INFO is not allowed, this check would print a warning.
    enableReadyCheck: false,
  }
  const { host, port } = options
  const at =
    host === undefined || port === undefined ? 'the master or its Sentinels' : hostPort({ host, port })
  return toConnection(new Redis(Object.assign(settings, options)), at)
}

/** @returns the Cluster, and its masters once it has answered */
export function clusterAt(
  { Cluster }: Ioredis,
  address: RedisAddress,
): RedisConnection & { readonly masters: () => ReadonlyMap<string, RedisConnection> } {
  const redisOptions = { ...eachNode(address, 1), connectTimeout: timeout, commandTimeout: timeout }
  const cluster = new Cluster([...address.hosts], {
    ...{ redisOptions, slotsRefreshTimeout: timeout, clusterRetryStrategy: retryDelay },
    ...clusterTls(address),
  })
  const masters = () =>
    new Map(
      cluster
        .nodes('master')
        .map((node) => [`${node.options.host}:${node.options.port}`, node] as const)
        .map(([at, node]) => [at, toConnection(node, at)]),
    )
  return { ...toConnection(cluster, 'the Redis Cluster'), masters }
}

interface Client {
  call(command: string, ...args: string[]): Promise<unknown>
  disconnect(): void
  on(event: 'error', listener: (error: unknown) => void): unknown
}

/** A command that fails for lack of a connection does not say why; the client's `error` event does. */
function toConnection(client: Client, at: string): RedisConnection {
  let lastError: unknown
  client.on('error', (error) => {
    // A Cluster's error says only that all nodes failed; the reason is in the last node's error.
    lastError = (error as { lastNodeError?: unknown } | undefined)?.lastNodeError ?? error
  })
  return {
    call: async (command, ...args) => {
      try {
        return await client.call(command, ...args)
      } catch (error) {
        const cause = isAnswer(error) || lastError === undefined ? error : lastError
        throw isTimeout(cause) ? noAnswer(at, command, timeout, cause) : cause
      }
    },
    close: () => client.disconnect(),
  }
}

function isTimeout(error: unknown): boolean {
  const { message, code } = error as NodeJS.ErrnoException
  return code === 'ETIMEDOUT' || message === 'Command timed out'
}

/** The server itself refused: its error starts with a code in capitals. */
export function isAnswer(error: unknown): boolean {
  return error instanceof Error && /^[A-Z]{3,} /.test(error.message)
}
