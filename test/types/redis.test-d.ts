/** Real clients fit the shapes the Redis driver asks for, without a cast. Checked by tsc, not run. */
import { createLocks } from 'holdfast'
import { type RedisClient, redis } from 'holdfast/redis'
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'

export function whatCompiles(): readonly RedisClient[] {
  redis({ client: new Redis(), subscriber: new Redis() })
  redis({ client: createClient({ RESP: 2 }), subscriber: false, replicas: 1 })
  createLocks(redis({ client: new Redis() })).readWrite('x')
  return [
    new Redis(),
    new Cluster([]),
    createClient(),
    createCluster({ rootNodes: [] }),
    createSentinel({ name: '', sentinelRootNodes: [] }),
  ]
}

export function whatDoesNot(): void {
  // @ts-expect-error a URL is no client
  redis({ client: 'redis://localhost' })
  // @ts-expect-error it needs a client
  redis({})
}
