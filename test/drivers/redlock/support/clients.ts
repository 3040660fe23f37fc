// Redlock drivers for the tests, with both clients, and cables to pull.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'
import { openIoredis } from '../../redis/support/open-ioredis.js'
import { openNodeRedis } from '../../redis/support/open-node-redis.js'
import type { Library } from '../../redis/support/place.js'
import { type Options, redlockWith } from './driver.js'

export type { Options } from './driver.js'

export function redlockOn(
  library: Library,
  ports: readonly number[],
  options?: Options,
  through?: (port: number) => number,
): DriverFactory {
  return redlockWith(library === 'ioredis' ? openIoredis : openNodeRedis, library, ports, options, through)
}

/** One set of cables for each client, to pull. */
export class Cables {
  readonly #free: Map<number, TcpProxy>[] = []
  readonly #used = new Map<DriverFactory, Map<number, TcpProxy>>()

  static async to(ports: readonly number[], sets: number): Promise<Cables> {
    const cables = new Cables()
    for (let i = 0; i < sets; i++) {
      cables.#free.push(
        new Map(await Promise.all(ports.map(async (port) => [port, await startProxy({ port })] as const))),
      )
    }
    return cables
  }

  factory(library: Library, ports: readonly number[], options?: Options): DriverFactory {
    const factory: DriverFactory = (env) => {
      const set = this.#free.pop()
      if (set === undefined) throw new Error('too many clients at once for these cables')
      this.#used.set(factory, set)
      const driver = redlockOn(library, ports, options, (port) => set.get(port)?.port ?? port)(env)
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

  /** The proxy between this client and the server at `port`. */
  between(factory: DriverFactory, port: number): TcpProxy {
    const proxy = this.#used.get(factory)?.get(port)
    if (proxy === undefined) throw new Error('this client has not been opened')
    return proxy
  }

  cut(factory: DriverFactory): void {
    for (const proxy of this.#used.get(factory)?.values() ?? []) proxy.blackHole()
  }

  heal(): void {
    for (const set of this.#used.values()) for (const proxy of set.values()) proxy.heal()
  }

  async stop(): Promise<void> {
    for (const set of [...this.#free, ...this.#used.values()])
      for (const proxy of set.values()) await proxy.stop()
  }
}
