// Clients for the tests: ioredis and node-redis, on one server, a Cluster or Sentinels, each behind cables of its own that
// can be pulled. A client is made when the driver is, and goes when the driver is closed.
import { Cluster, Redis } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type RedisClient, type RedisOptions, redis } from '../../../../src/drivers/redis/index.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'

export type Library = 'ioredis' | 'node-redis'

export interface Address {
  readonly host: string
  readonly port: number
}

/** Where the servers are. Sentinels are reached directly: only data servers have cables. */
export type Place =
  | { readonly is: 'single'; readonly port: number }
  | { readonly is: 'cluster'; readonly ports: readonly number[] }
  | {
      readonly is: 'sentinel'
      readonly name: string
      readonly sentinels: readonly Address[]
      readonly ports: readonly number[]
    }

export interface Opened {
  readonly client: RedisClient
  /** Connects it, before the first use: a cluster client takes no command earlier. */
  start(): Promise<unknown>
  close(): void
}

/** One client. `through` says which port stands for a server's own: that of a proxy, or the same. */
export function open(
  library: Library,
  place: Place,
  through: (port: number) => number = (port) => port,
): Opened {
  return library === 'ioredis' ? openIoredis(place, through) : openNodeRedis(place, through)
}

const quick = (times: number) => Math.min(20 * times, 200)

function openIoredis(place: Place, through: (port: number) => number): Opened {
  const ports = place.is === 'single' ? [place.port] : place.ports
  const natMap = Object.fromEntries(
    ports.map((port) => [`127.0.0.1:${port}`, { host: '127.0.0.1', port: through(port) }]),
  )
  const client =
    place.is === 'single'
      ? new Redis(through(place.port), '127.0.0.1', { lazyConnect: true, retryStrategy: quick })
      : place.is === 'cluster'
        ? new Cluster(
            ports.map((port) => ({ host: '127.0.0.1', port: through(port) })),
            { lazyConnect: true, natMap, clusterRetryStrategy: quick, slotsRefreshTimeout: 2000 },
          )
        : new Redis({
            lazyConnect: true,
            name: place.name,
            sentinels: [...place.sentinels],
            natMap,
            retryStrategy: quick,
            sentinelRetryStrategy: quick,
          })
  client.on('error', () => undefined)
  return { client, start: async () => undefined, close: () => client.disconnect() }
}

function openNodeRedis(place: Place, through: (port: number) => number): Opened {
  const ports = place.is === 'single' ? [place.port] : place.ports
  const nodeAddressMap = Object.fromEntries(
    ports.map((port) => [`127.0.0.1:${port}`, { host: '127.0.0.1', port: through(port) }]),
  )
  const socket = { reconnectStrategy: quick }
  const client =
    place.is === 'single'
      ? createClient({ socket: { host: '127.0.0.1', port: through(place.port), ...socket } })
      : place.is === 'cluster'
        ? createCluster({
            rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${through(port)}` })),
            defaults: { socket },
            nodeAddressMap,
          })
        : createSentinel({
            name: place.name,
            sentinelRootNodes: [...place.sentinels],
            nodeAddressMap,
            nodeClientOptions: { socket },
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

/** A driver over a client of its own, which is connected at the first use and closed with the driver. */
export function driverOn({ client, start, close }: Opened, options?: Partial<RedisOptions>): DriverFactory {
  return (env) => {
    const made = redis({ client, ...options })(env)
    const { acquire, together, inspect, list, forceRelease, cells, ...driver } = made
    const started = <A extends unknown[], R>(fn: (...args: A) => Promise<R>) => {
      return async (...args: A): Promise<R> => {
        await start()
        return fn(...args)
      }
    }
    return {
      ...driver,
      acquire: started(acquire),
      ...(together && { together: started(together) }),
      inspect: started(inspect),
      ...(list && { list: started(list) }),
      ...(forceRelease && { forceRelease: started(forceRelease) }),
      ...(cells && {
        cells: { read: started(cells.read), write: started(cells.write), changed: started(cells.changed) },
      }),
      close: async () => {
        await driver.close()
        close()
      },
    }
  }
}

/** Cables, handed out again when their client has gone: making one takes a round of the event loop. */
export class Cables {
  readonly #free: Map<number, TcpProxy>[] = []
  readonly #used = new Map<DriverFactory, Map<number, TcpProxy>>()
  readonly #all: Map<number, TcpProxy>[] = []

  /** @param sets how many clients there may be at once */
  static async to(place: Place, sets: number): Promise<Cables> {
    const cables = new Cables()
    const ports = place.is === 'single' ? [place.port] : place.ports
    for (let i = 0; i < sets; i++) {
      const set = new Map<number, TcpProxy>()
      for (const port of ports) set.set(port, await startProxy({ port }))
      cables.#all.push(set)
      cables.#free.push(set)
    }
    return cables
  }

  factory(library: Library, place: Place, options?: Partial<RedisOptions>): DriverFactory {
    const factory: DriverFactory = (env) => {
      const set = this.#free.pop()
      if (set === undefined) throw new Error('too many clients at once for these cables')
      this.#used.set(factory, set)
      const opened = open(library, place, (port) => set.get(port)?.port ?? port)
      const driver = driverOn(opened, options)(env)
      return {
        ...driver,
        close: async () => {
          await driver.close()
          for (const proxy of set.values()) proxy.heal()
          if (this.#used.delete(factory)) this.#free.push(set)
        },
      }
    }
    return factory
  }

  cut(factory: DriverFactory): void {
    for (const proxy of this.#used.get(factory)?.values() ?? []) proxy.blackHole()
  }

  heal(): void {
    for (const set of this.#used.values()) for (const proxy of set.values()) proxy.heal()
  }

  async stop(): Promise<void> {
    for (const set of this.#all) for (const proxy of set.values()) await proxy.stop()
  }
}
