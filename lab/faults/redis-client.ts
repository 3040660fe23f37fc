/** An ioredis client with the redis driver over it, for workers and for the final inspection. */

import { type RedisOptions, redis } from 'holdfast/redis'
import { Cluster, Redis } from 'ioredis'
import type { Client } from './store.js'

type Hosts = readonly { readonly host: string; readonly port: number }[]

export interface RedisPlace {
  readonly is: 'single' | 'sentinel' | 'cluster'
  readonly hosts: Hosts
  readonly master?: string
  /** Maps each real address to the one to use: that of a proxy. */
  readonly through?: Readonly<Record<string, { readonly host: string; readonly port: number }>>
  readonly options?: Partial<RedisOptions>
}

const quick = (times: number) => Math.min(20 * times, 200)

export function openRedis(place: RedisPlace): Client {
  const client = createClient(place)
  client.on('error', () => undefined)
  return { driver: redis({ client, ...place.options }), close: () => client.disconnect() }
}

function createClient({ is, hosts, master = '', through }: RedisPlace): Redis | Cluster {
  const natMap = through === undefined ? {} : { natMap: through }
  if (is === 'cluster') {
    const nodes = hosts.map(({ host, port }) => through?.[`${host}:${port}`] ?? { host, port })
    return new Cluster(nodes, { clusterRetryStrategy: quick, slotsRefreshTimeout: 2_000, ...natMap })
  }
  if (is === 'sentinel') {
    const sentinels = [...hosts]
    return new Redis({
      sentinels,
      name: master,
      retryStrategy: quick,
      sentinelRetryStrategy: quick,
      ...natMap,
    })
  }
  return new Redis({ ...hosts[0], retryStrategy: quick })
}

/** For `place`: the proxies of one worker, by the addresses they stand for. */
export function natMap(
  ports: readonly number[],
  through: (port: number) => number,
  address: (n: number) => string = () => '127.0.0.1',
): Record<string, { host: string; port: number }> {
  const host = '127.0.0.1'
  return Object.fromEntries(ports.map((port, n) => [`${address(n)}:${port}`, { host, port: through(port) }]))
}
