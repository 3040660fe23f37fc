// A redlock driver over clients of its own: they are opened when the driver is made, and go with it.
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type RedlockOptions, redlock } from '../../../../src/drivers/redlock/index.js'
import type { Library, Open } from '../../redis/support/place.js'

export type Options = Omit<RedlockOptions, 'clients'>

export function redlockWith(
  open: Open,
  library: Library,
  ports: readonly number[],
  options?: Options,
  through: (port: number) => number = (port) => port,
): DriverFactory {
  return (env) => {
    const opened = ports.map((port) => open({ is: 'single', port }, through))
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
