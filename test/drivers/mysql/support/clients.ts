// Pools for the tests: mysql2 and mariadb, each behind a cable of its own that can be pulled. A pool is made when the driver is,
// and goes when the driver is closed.
import type { EventEmitter } from 'node:events'
import { createPool as createMariadb } from 'mariadb'
import { createPool as createMysql2 } from 'mysql2/promise'
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type MysqlOptions, type MysqlPool, mysql } from '../../../../src/drivers/mysql/index.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'

export type Library = 'mysql2' | 'mariadb'

export interface Opened {
  readonly pool: MysqlPool
  close(): void
}

const place = { host: '127.0.0.1', user: 'root', database: 'holdfast' } as const

/** @param level isolation of all transactions; mysql2 only */
export function open(library: Library, port: number, size = 5, level?: string): Opened {
  if (library === 'mysql2') {
    const pool = createMysql2({ ...place, port, connectionLimit: size, connectTimeout: 2_000 })
    if (level !== undefined)
      pool.pool.on('connection', (connection) =>
        connection.query(`set session transaction isolation level ${level}`),
      )
    return { pool, close: () => void pool.end().catch(() => undefined) }
  }
  const pool = createMariadb({
    ...{ ...place, port, connectionLimit: size, connectTimeout: 1_000, acquireTimeout: 2_000 },
    ...{ allowPublicKeyRetrieval: true, initializationTimeout: 1_000 },
  })
  return { pool, close: () => void pool.end().catch(() => undefined) }
}

type Listening = [event: string, listener: (...args: unknown[]) => void]

/** A driver over a pool of its own, which goes with the driver. */
export function driverOn(
  library: Library,
  port: number,
  options?: Partial<MysqlOptions>,
  size?: number,
): DriverFactory {
  return (env) => {
    // The mariadb client connects when its pool is made; the driver must not.
    let opened: Opened | undefined
    const get = () => {
      opened ??= open(library, port, size)
      return opened.pool
    }
    const events = () => get() as unknown as EventEmitter
    const pool: MysqlPool = {
      getConnection: () => get().getConnection(),
      // It tells which socket a connection of it has.
      ...(library === 'mariadb' && {
        on: (...given: Listening) => events().on(...given),
        off: (...given: Listening) => events().off(...given),
      }),
    }
    const driver = mysql({ pool, ...options })(env)
    return {
      ...driver,
      close: async () => {
        await driver.close()
        opened?.close()
      },
    }
  }
}

/** Cables, handed out again when their client has gone: making one takes a round of the event loop. */
export class Cables {
  readonly #free: TcpProxy[] = []
  readonly #used = new Map<DriverFactory, TcpProxy>()
  readonly #all: TcpProxy[] = []
  readonly #how: 'lose' | 'delay'

  private constructor(how: 'lose' | 'delay') {
    this.#how = how
  }

  /**
   * @param count how many clients there may be at once
   * @param how what a pulled cable does: `lose` bytes, which resets the connection when it is healed, or `delay` them, as TCP does by
   *   sending again
   */
  static async to(port: number, count: number, how: 'lose' | 'delay' = 'lose'): Promise<Cables> {
    const cables = new Cables(how)
    for (let i = 0; i < count; i++) {
      const proxy = await startProxy({ port })
      cables.#all.push(proxy)
      cables.#free.push(proxy)
    }
    return cables
  }

  factory(library: Library, options?: Partial<MysqlOptions>): DriverFactory {
    const factory: DriverFactory = (env) => {
      const proxy = this.#free.pop()
      if (proxy === undefined) throw new Error('too many clients at once for these cables')
      this.#used.set(factory, proxy)
      const driver = driverOn(library, proxy.port, options)(env)
      return {
        ...driver,
        close: async () => {
          await driver.close()
          proxy.heal()
          if (this.#used.delete(factory)) this.#free.push(proxy)
        },
      }
    }
    return factory
  }

  cut(factory: DriverFactory): void {
    const proxy = this.#used.get(factory)
    if (this.#how === 'lose') proxy?.blackHole()
    else {
      proxy?.up.hold()
      proxy?.down.hold()
    }
  }

  heal(): void {
    for (const proxy of this.#used.values()) proxy.heal()
  }

  async stop(): Promise<void> {
    for (const proxy of this.#all) await proxy.stop()
  }
}
