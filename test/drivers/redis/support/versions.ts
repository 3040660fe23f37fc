// Each version of the clients that the package says it works with, loaded when a test opens it.
import type * as ioredis from 'ioredis'
import type * as nodeRedis from 'redis'
import { type Opened, type Place, quick } from './place.js'

type IoredisLibrary = Pick<typeof ioredis, 'Redis' | 'Cluster'>
type NodeRedisLibrary = {
  readonly [F in 'createClient' | 'createCluster' | 'createSentinel']: (
    options: object,
  ) => ReturnType<(typeof nodeRedis)[F]>
}
/** Options of the client itself. */
export type ClientOptions = Readonly<Record<string, unknown>>

export interface Version {
  /** As in `redis 5.12.1`. */
  readonly name: string
  readonly library: 'ioredis' | 'redis'
  readonly version: string
  readonly places: readonly Place['is'][]
  /** @param group options of the Cluster or Sentinel client itself; the others are those of its nodes' clients */
  open(place: Place, options?: ClientOptions, group?: ClientOptions): Promise<Opened>
}

const everywhere = ['single', 'sentinel', 'cluster'] as const

export const versions: readonly Version[] = [
  ioredisVersion('5.0.0', everywhere, () => import('ioredis-5.0')),
  ioredisVersion('5.11.1', everywhere, () => import('ioredis-5')),
  ioredisVersion('6.0.0', everywhere, () => import('ioredis')),
  // It has no client of Sentinels.
  redisVersion('4.7.1', ['single', 'cluster'], () => import('redis-4')),
  redisVersion('5.0.0', everywhere, () => import('redis-5.0')),
  redisVersion('5.12.1', everywhere, () => import('redis-5')),
  redisVersion('6.3.1', everywhere, () => import('redis')),
]

export function versionNamed(name: string): Version {
  const found = versions.find((version) => version.name === name)
  if (found === undefined) throw new Error(`no version '${name}'`)
  return found
}

function ioredisVersion(
  version: string,
  places: Version['places'],
  load: () => Promise<{ readonly default: unknown }>,
): Version {
  const open: Version['open'] = async (place, more = {}, group = {}) => {
    // Until 5.3 its class stood for the whole module.
    const loaded = await load()
    const { Redis, Cluster } = { Redis: loaded.default, ...loaded } as unknown as IoredisLibrary
    const options = { lazyConnect: true, retryStrategy: quick, disconnectTimeout: 100, ...more }
    const client =
      place.is === 'single'
        ? new Redis(place.port, '127.0.0.1', options as object)
        : place.is === 'sentinel'
          ? new Redis({ name: place.name, sentinels: [...place.sentinels], ...options, ...group } as object)
          : new Cluster(hosts(place.ports), {
              lazyConnect: true,
              clusterRetryStrategy: quick,
              ...group,
              redisOptions: { ...more, disconnectTimeout: 100 } as object,
            })
    client.on('error', () => undefined)
    return { client, start: () => client.connect(), close: () => client.disconnect() }
  }
  return { name: `ioredis ${version}`, library: 'ioredis', version, places, open }
}

function redisVersion(version: string, places: Version['places'], load: () => Promise<unknown>): Version {
  const open: Version['open'] = async (place, more = {}, group = {}) => {
    const { createClient, createCluster, createSentinel } = (await load()) as NodeRedisLibrary
    const socket = { reconnectStrategy: quick, ...(more.socket as object) }
    const client =
      place.is === 'single'
        ? createClient({ ...more, socket: { host: '127.0.0.1', port: place.port, ...socket } } as object)
        : place.is === 'cluster'
          ? createCluster({
              rootNodes: hosts(place.ports).map((address) => ({ socket: address })),
              ...group,
              defaults: { ...more, socket },
            })
          : createSentinel({
              name: place.name,
              sentinelRootNodes: [...place.sentinels],
              ...group,
              nodeClientOptions: { ...more, socket },
            })
    client.on('error', () => undefined)
    // Version 4 has no destroy(), and closing twice is an error.
    const close = () => {
      if (!client.isOpen) return
      const { destroy = client.disconnect } = client as Partial<typeof client> & { disconnect(): unknown }
      void Promise.resolve(destroy.call(client)).catch(() => undefined)
    }
    return { client, start: () => client.connect(), close }
  }
  return { name: `redis ${version}`, library: 'redis', version, places, open }
}

const hosts = (ports: readonly number[]) => ports.map((port) => ({ host: '127.0.0.1', port }))
