/** Opens a Redis address with ioredis. */

import { clusterTls, eachNode, sentinelTls } from './ioredis-options.js'
import { maxRetries, type Opened, type RedisAddress } from './redis-place.js'

export async function withIoredis(address: RedisAddress): Promise<Opened> {
  const { Cluster, Redis } = await import('ioredis')
  const { is, hosts, database, master } = address
  const each = eachNode(address, maxRetries)
  const client =
    is === 'cluster'
      ? new Cluster([...hosts], { redisOptions: each, ...clusterTls(address) })
      : is === 'sentinel'
        ? new Redis({ sentinels: [...hosts], name: master, ...each, ...sentinelTls(address) })
        : new Redis({ ...hosts[0], db: database, ...each })
  return { client, close: async () => client.disconnect() }
}
