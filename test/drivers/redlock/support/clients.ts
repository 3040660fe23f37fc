// Redlock drivers for the tests, over clients of their own: they are opened when the driver is made, and go with it.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type RedlockOptions, redlock } from '../../../../src/drivers/redlock/index.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'
import { type Library, open } from '../../redis/support/clients.js'

export type Options = Omit<RedlockOptions, 'clients'>

export function redlockOn(
  library: Library,
  ports: readonly number[],
  options?: Options,
  through: (port: number) => number = (port) => port,
): DriverFactory {
  return (env) => {
    const opened = ports.map((port) => open(library, { is: 'single', port }, through))
    const { close, acquire, inspect, forceRelease, ...driver } = redlock({
      clients: opened.map(({ client }) => client),
      ...options,
    })(env)
    let started: Promise<unknown> | undefined
    // node-redis must be connected by its owner; a server that is down must not hold up the others.
    const start = async () => {
      started ??= Promise.all(opened.map((one) => one.start()))
      if (library === 'node-redis')
        await Promise.race([started, new Promise((resolve) => setTimeout(resolve, 200).unref())])
    }
    return {
      ...driver,
      acquire: (claim, wait) => start().then(() => acquire(claim, wait)),
      inspect: (name) => start().then(() => inspect(name)),
      ...(forceRelease && { forceRelease: (name) => start().then(() => forceRelease(name)) }),
      close: async () => {
        await close()
        for (const one of opened) one.close()
      },
    }
  }
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
