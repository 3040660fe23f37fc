// Clients for the tests: pg and postgres.js, each behind a cable of its own that can be pulled. A client is made when the driver
// is, and goes when the driver is closed.
import { Pool, type PoolConfig } from 'pg'
import postgresJs from 'postgres'
import type { DriverFactory } from '../../../../src/core/driver.js'
import { type PostgresOptions, type PostgresPool, postgres } from '../../../../src/drivers/postgres/index.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'

export type Library = 'pg' | 'postgres.js'
export type Options = Omit<PostgresOptions, 'pool'>

export interface Opened {
  readonly pool: PostgresPool
  close(): Promise<void>
}

const login = { host: '127.0.0.1', user: 'postgres', database: 'postgres' }

export function open(library: Library, port: number, config: PoolConfig = {}): Opened {
  if (library === 'pg') {
    const pool = new Pool({ ...login, port, ...config })
    pool.on('error', () => undefined)
    return { pool, close: () => pool.end() }
  }
  const { host, user, database } = login
  const sql = postgresJs({
    host,
    port,
    user,
    database,
    max: 3,
    onnotice: () => undefined,
    backoff: () => 0.05,
    // Ended while it asks for types, it would leave a rejection to nobody.
    fetch_types: false,
  })
  return { pool: sql as unknown as PostgresPool, close: () => sql.end({ timeout: 0 }) }
}

/** A driver over a client of its own, which is closed with the driver. */
export function driverOn(library: Library, port: number, options: Options = {}): DriverFactory {
  return (env) => {
    const { pool, close } = open(library, port)
    const driver = postgres({ pool, ...options } as PostgresOptions)(env)
    return {
      ...driver,
      close: async () => {
        await driver.close()
        await close()
      },
    }
  }
}

/** Cables, handed out again when their client has gone. */
export class Cables {
  readonly #free: TcpProxy[] = []
  readonly #used = new Map<DriverFactory, TcpProxy>()
  readonly #all: TcpProxy[] = []

  static async to(port: number, count: number): Promise<Cables> {
    const cables = new Cables()
    for (let i = 0; i < count; i++) cables.#all.push(await startProxy({ port }))
    cables.#free.push(...cables.#all)
    return cables
  }

  factory(library: Library, options?: Options): DriverFactory {
    const factory: DriverFactory = (env) => {
      const cable = this.#free.pop()
      if (cable === undefined) throw new Error('too many clients at once for these cables')
      this.#used.set(factory, cable)
      const driver = driverOn(library, cable.port, options)(env)
      return {
        ...driver,
        close: async () => {
          await driver.close()
          cable.heal()
          if (this.#used.delete(factory)) this.#free.push(cable)
        },
      }
    }
    return factory
  }

  /** @param keep deliver later what is sent meanwhile, as TCP does; else the connections break when the cable is healed */
  cut(factory: DriverFactory, keep = false): void {
    const cable = this.#used.get(factory)
    if (!keep) cable?.blackHole()
    cable?.up[keep ? 'hold' : 'drop']()
    cable?.down[keep ? 'hold' : 'drop']()
  }

  heal(): void {
    for (const cable of this.#used.values()) cable.heal()
  }

  async stop(): Promise<void> {
    for (const cable of this.#all) await cable.stop()
  }
}
