// One set of cables, a proxy to each server, for each client of a store that is spoken to over HTTP: to pull, hold and count.
import type { DriverFactory } from '../../../src/core/driver.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'

export class Cables {
  readonly #ports: readonly number[]
  readonly #free: TcpProxy[][] = []
  readonly #used = new Map<DriverFactory, TcpProxy[]>()

  private constructor(ports: readonly number[]) {
    this.#ports = ports
  }

  /** @param sets for so many clients at once */
  static async to(ports: readonly number[], sets: number): Promise<Cables> {
    const cables = new Cables(ports)
    for (let i = 0; i < sets; i++) {
      cables.#free.push(await Promise.all(ports.map((port) => startProxy({ port }))))
    }
    return cables
  }

  /** A driver behind a set of its own, which is taken when the driver is made and released when it is closed. */
  factory(make: (ports: readonly number[]) => DriverFactory): DriverFactory {
    const factory: DriverFactory = (env) => {
      const set = this.#free.pop()
      if (set === undefined) throw new Error('too many clients at once for these cables')
      this.#used.set(factory, set)
      const driver = make(set.map(({ port }) => port))(env)
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

  /** The proxies of this client, in the order of the servers. */
  of(factory: DriverFactory): readonly TcpProxy[] {
    const set = this.#used.get(factory)
    if (set === undefined) throw new Error(`this client of ${this.#ports.join(', ')} has not been opened`)
    return set
  }

  cut(factory: DriverFactory): void {
    for (const proxy of this.of(factory)) proxy.blackHole()
  }

  heal(): void {
    for (const set of this.#used.values()) for (const proxy of set) proxy.heal()
  }

  async stop(): Promise<void> {
    const all = [...this.#free, ...this.#used.values()].flat()
    await Promise.all(all.map((proxy) => proxy.stop()))
  }
}
