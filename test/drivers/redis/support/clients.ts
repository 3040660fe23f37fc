// Clients for the tests: ioredis and node-redis, on one server, a Cluster or Sentinels, each behind cables of its own that
// can be pulled. A client is made when the driver is, and goes when the driver is closed.
import type { DriverFactory } from '../../../../src/core/driver.js'
import type { RedisOptions } from '../../../../src/drivers/redis/index.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'
import { openIoredis } from './open-ioredis.js'
import { openNodeRedis } from './open-node-redis.js'
import { driverOn, type Library, type Opened, type Place } from './place.js'

export { type Address, driverOn, type Library, type Opened, type Place } from './place.js'

/** One client. `through` says which port stands for a server's own: that of a proxy, or the same. */
export function open(library: Library, place: Place, through?: (port: number) => number): Opened {
  return library === 'ioredis' ? openIoredis(place, through) : openNodeRedis(place, through)
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
