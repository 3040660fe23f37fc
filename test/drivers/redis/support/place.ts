// Where the servers are, and a driver over one client: nothing of either library, so that a process loads the one it takes part with.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type RedisClient, type RedisOptions, redis } from '../../../../src/drivers/redis/index.js'

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
export type Open = (place: Place, through?: (port: number) => number) => Opened

/** The library is loaded on demand. */
export async function openerOf(library: Library): Promise<Open> {
  return library === 'ioredis'
    ? (await import('./open-ioredis.js')).openIoredis
    : (await import('./open-node-redis.js')).openNodeRedis
}

export const quick = (times: number): number => Math.min(20 * times, 200)

/** A driver over a client of its own, which is connected at the first use and closed with the driver. */
export function driverOn({ client, start, close }: Opened, options?: Partial<RedisOptions>): DriverFactory {
  return (env) => {
    // Nobody can say of the nodes of a Cluster that they are new.
    const isCluster = 'nodes' in client || 'nodeClient' in client
    const made = redis({ client, maxTtl: 60_000, ...(isCluster && { quarantine: 'detected' }), ...options })(
      env,
    )
    const { acquire, acquireMany, inspect, list, forceRelease, cells, ...driver } = made
    const started = <A extends unknown[], R>(fn: (...args: A) => Promise<R>) => {
      return async (...args: A): Promise<R> => {
        await start()
        return fn(...args)
      }
    }
    return {
      ...driver,
      acquire: started(acquire),
      ...(acquireMany && { acquireMany: started(acquireMany) }),
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
