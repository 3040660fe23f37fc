/** Opens a Redis address with ioredis. */

import { clusterTls, eachNode, sentinelTls } from './ioredis-options.js'
import { few, type Opened, type RedisPlace } from './redis-place.js'

export async function withIoredis(place: RedisPlace): Promise<Opened> {
  const { Cluster, Redis } = await import('ioredis')
  const { is, hosts, database, master } = place
  const each = eachNode(place, few)
  const client =
    is === 'cluster'
      ? new Cluster([...hosts], { redisOptions: each, ...clusterTls(place) })
      : is === 'sentinel'
        ? new Redis({ sentinels: [...hosts], name: master, ...each, ...sentinelTls(place) })
        : new Redis({ ...hosts[0], db: database, ...each })
  return { client, close: async () => client.disconnect() }
}
