import { Cluster, Redis } from 'ioredis'
import { type Opened, type Place, quick } from './place.js'

/** Their timers outlive them by so much when the connection is gone already. */
const disconnectTimeout = 100

export function openIoredis(place: Place, through: (port: number) => number = same): Opened {
  const ports = place.is === 'single' ? [place.port] : place.ports
  const natMap = Object.fromEntries(
    ports.map((port) => [`127.0.0.1:${port}`, { host: '127.0.0.1', port: through(port) }]),
  )
  const client =
    place.is === 'single'
      ? new Redis(through(place.port), '127.0.0.1', {
          lazyConnect: true,
          retryStrategy: quick,
          disconnectTimeout,
        } as object)
      : place.is === 'cluster'
        ? new Cluster(
            ports.map((port) => ({ host: '127.0.0.1', port: through(port) })),
            {
              lazyConnect: true,
              natMap,
              clusterRetryStrategy: quick,
              slotsRefreshTimeout: 2000,
              redisOptions: { disconnectTimeout } as object,
            },
          )
        : new Redis({
            lazyConnect: true,
            name: place.name,
            sentinels: [...place.sentinels],
            natMap,
            retryStrategy: quick,
            sentinelRetryStrategy: quick,
            disconnectTimeout,
          } as object)
  client.on('error', () => undefined)
  return { client, start: async () => undefined, close: () => client.disconnect() }
}

const same = (port: number) => port
