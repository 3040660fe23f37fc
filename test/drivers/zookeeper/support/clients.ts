// Clients of ZooKeeper for the tests, each behind cables of its own that can be pulled.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type ZookeeperOptions, zookeeper } from '../../../../src/drivers/zookeeper/index.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'

export type Options = Omit<ZookeeperOptions, 'servers'>

/** Short, for tests; the servers of the tests tick every 500 ms. */
export const quick: Options = { sessionTimeout: 4_000, tickTime: 500 }

/** Shorter still, for the many tests of the conformance suite in which somebody dies; the servers tick every 200 ms. */
export const brisk: Options = { sessionTimeout: 3_200, tickTime: 200 }

/** Cables, handed out again when their client has gone: making one takes a round of the event loop. */
export class Cables {
  readonly #free: TcpProxy[][] = []
  readonly #used = new Map<DriverFactory, TcpProxy[]>()
  readonly #all: TcpProxy[] = []

  /** @param sets how many clients there may be at once */
  static async to(ports: readonly number[], sets: number): Promise<Cables> {
    const cables = new Cables()
    for (let i = 0; i < sets; i++) {
      const set: TcpProxy[] = []
      for (const port of ports) set.push(await startProxy({ port }))
      cables.#free.push(set)
      cables.#all.push(...set)
    }
    return cables
  }

  factory(options: Options = {}): DriverFactory {
    const factory: DriverFactory = (env) => {
      const set = this.#free.pop()
      if (set === undefined) throw new Error('too many clients at once for these cables')
      this.#used.set(factory, set)
      const servers = set.map(({ port }) => `127.0.0.1:${port}`)
      const driver = zookeeper({ servers, ...quick, ...options } as ZookeeperOptions)(env)
      return {
        ...driver,
        close: async () => {
          await driver.close()
          for (const proxy of set) proxy.heal()
          if (this.#used.delete(factory)) this.#free.push(set)
        },
      }
    }
    return factory
  }

  /** The cables of one client. */
  of(factory: DriverFactory): readonly TcpProxy[] {
    return this.#used.get(factory) ?? []
  }

  cut(factory: DriverFactory): void {
    for (const proxy of this.of(factory)) proxy.blackHole()
  }

  heal(): void {
    for (const set of this.#used.values()) for (const proxy of set) proxy.heal()
  }

  async stop(): Promise<void> {
    for (const proxy of this.#all) await proxy.stop()
  }
}
