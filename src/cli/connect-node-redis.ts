/** Opens a Redis address with node-redis. */
import type { Opened, RedisAddress } from './redis-place.js'
import { readKeys } from './tls.js'

export async function withNodeRedis({
  is,
  hosts,
  tls,
  login,
  database,
  master,
}: RedisAddress): Promise<Opened> {
  const { createClient, createCluster, createSentinel } = await import('redis')
  const [first] = hosts
  const secure = tls && ({ tls: true, ...readKeys(tls) } as const)
  const each = { ...login, ...(secure && { socket: secure }) }
  const client =
    is === 'cluster'
      ? createCluster({
          rootNodes: hosts.map((socket) => ({ socket: { ...socket, ...secure } })),
          defaults: each,
        })
      : is === 'sentinel'
        ? createSentinel({
            ...{ name: master, sentinelRootNodes: [...hosts], nodeClientOptions: each },
            ...(secure && { sentinelClientOptions: { socket: secure } }),
          })
        : createClient({ socket: { ...first, ...secure }, database, ...login })
  // The client keeps reconnecting by itself; commands sent meanwhile fail in their own time.
  void client.connect().catch(() => undefined)
  const close = async () => {
    try {
      await client.destroy()
    } catch {
      // It never connected.
    }
  }
  return { client, close }
}
