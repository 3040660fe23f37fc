import { createClient, createCluster, RedisSentinel } from 'redis'
import { type Opened, type Place, quick } from './place.js'

/**
 * node-redis makes its class of some 600 methods again whenever the options of a client differ, as JSON, from those before: 45 ms of a
 * processor, more than most tests take. To it all these addresses are one.
 */
const alike = { toJSON: () => 'alike' }
/** Of the clients that a client of Sentinels makes. The first one speaks to a Sentinel, so the class has their commands, too. */
const kin = { toJSON: () => 'kin' }
const sentinelOf = RedisSentinel.factory()

export function openNodeRedis(place: Place, through: (port: number) => number = same): Opened {
  const ports = place.is === 'single' ? [place.port] : place.ports
  // A function does not show in JSON.
  const nodeAddressMap = (address: string) => {
    const port = Number(address.slice(address.lastIndexOf(':') + 1))
    return ports.includes(port) ? { host: '127.0.0.1', port: through(port) } : undefined
  }
  const socket = { reconnectStrategy: quick, ...alike }
  const client =
    place.is === 'single'
      ? createClient({ socket: { host: '127.0.0.1', port: through(place.port), ...socket } })
      : place.is === 'cluster'
        ? createCluster({
            rootNodes: ports.map((port) => ({
              socket: { host: '127.0.0.1', port: through(port), ...alike },
            })),
            defaults: { socket },
            nodeAddressMap,
          })
        : sentinelOf({
            name: place.name,
            sentinelRootNodes: [...place.sentinels],
            nodeAddressMap,
            sentinelClientOptions: { socket: {}, ...kin },
            nodeClientOptions: { socket, ...kin },
          })
  client.on('error', () => undefined)
  let started: Promise<unknown> | undefined
  const start = () => {
    started ??= client.connect().catch(() => undefined)
    return started
  }
  const close = () => {
    try {
      void Promise.resolve(client.destroy()).catch(() => undefined)
    } catch {
      // It never came up.
    }
  }
  return { client, start, close }
}

const same = (port: number) => port
