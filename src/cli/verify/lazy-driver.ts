/** A client opened on first use and closed with its driver, for callers that must name it before they may wait. */
import { randomBytes } from 'node:crypto'
import type { DriverFactory, Locks } from 'holdfast'
import type { Cells, Driver, Env } from 'holdfast/driver'
import type { Connection, StoreTarget } from '../connect.js'
import { withStore } from '../with-store.js'

/** @param like a driver of the same store, for its traits */
export function lazyDriver(connect: () => Promise<Connection>, like: Driver): DriverFactory {
  return (env: Env) => {
    let opened: Promise<{ driver: Driver; connection: Connection }> | undefined
    const open = () => {
      opened ??= connect().then((connection) => ({ driver: connection.driver(env), connection }))
      return opened.then(({ driver }) => driver)
    }
    const cells = (driver: Driver): Cells => {
      if (driver.cells === undefined) throw new TypeError(`${driver.name} has no cells`)
      return driver.cells
    }
    return {
      name: like.name,
      traits: like.traits,
      acquire: async (claim, wait) => (await open()).acquire(claim, wait),
      ...(like.acquireMany && {
        acquireMany: async (...args: Parameters<NonNullable<Driver['acquireMany']>>) =>
          (await open()).acquireMany?.(...args),
      }),
      inspect: async (name) => (await open()).inspect(name),
      ...(like.list && { list: async (prefix: string) => (await (await open()).list?.(prefix)) ?? [] }),
      ...(like.forceRelease && {
        forceRelease: async (name: string) => (await (await open()).forceRelease?.(name)) ?? 0,
      }),
      ...(like.cells && {
        cells: {
          read: async (...args: Parameters<Cells['read']>) => cells(await open()).read(...args),
          write: async (...args: Parameters<Cells['write']>) => cells(await open()).write(...args),
          changed: async (...args: Parameters<Cells['changed']>) => cells(await open()).changed(...args),
        },
      }),
      close: async () => {
        if (opened === undefined) return
        const { driver, connection } = await opened
        await driver.close()
        await connection.close()
      },
    }
  }
}

/** A login may be allowed to read and nothing else. A store that grants nothing yet, after a restart, is no reason to refuse the work. */
async function tryOnce(locks: Locks): Promise<void> {
  const lock = locks.mutex(`holdfast-verify/${randomBytes(6).toString('hex')}/first`)
  try {
    await (await lock.tryAcquire())?.release()
  } catch (error) {
    if ((error as { quarantined?: unknown }).quarantined !== true) throw error
  }
}

/** Opens the store once, queries it and takes a lock of its own, so that an unusable store is reported before anything else. */
export async function probe(store: StoreTarget): Promise<Driver> {
  let driver: Driver | undefined
  const connect = async () => {
    const connection = await store.connect()
    const factory: DriverFactory = (env) => {
      driver = connection.driver(env)
      return driver
    }
    return { ...connection, driver: factory }
  }
  await withStore({ ...store, connect }, async (locks) => {
    await locks.inspect('holdfast-verify')
    await tryOnce(locks)
  })
  if (driver === undefined) throw new TypeError('the store gave no driver')
  return driver
}
