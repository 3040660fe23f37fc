/** `postgres()` and the driver it makes. `sql.ts` decides who holds a lock; `waiter.ts` and `hold.ts` send the statements. */
import type { Driver, DriverFactory, Grant, Traits } from '../../core/driver.js'
import { BackendError, UnsupportedError } from '../../core/errors.js'
import { acquireMany } from './acquire-many.js'
import { createCells } from './cells.js'
import { type Database, toDatabase } from './client.js'
import { toFailure } from './failure.js'
import { toLockStatus } from './inspect.js'
import { type PostgresOptions, parseOptions, type Settings } from './options.js'
import { createRuntime, type Runtime } from './runtime.js'
import { sessionDriver } from './session/driver.js'
import { Waiter } from './waiter.js'

export interface PostgresTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly acquireMany: true
}

/** Traits of the strategy `session`. */
export interface PostgresSessionTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared']
  readonly fair: true
  readonly shared: true
}

const traits: PostgresTraits = Object.freeze({
  modes: ['exclusive', 'shared', 'permits'] as const,
  fair: true,
  // The round trip to the server would use up a shorter lease.
  minTtl: 50,
  shared: true,
  maxLockDelay: Number.POSITIVE_INFINITY,
  cells: true as const,
  acquireMany: true as const,
})

/**
 * Locks in PostgreSQL 14 and newer, over a pg `Pool` or a postgres.js instance.
 * @throws TypeError or RangeError for bad options, UnsupportedError for the strategy `transaction`; all before any I/O
 */
export function postgres(
  options: PostgresOptions & { readonly strategy: 'session' },
): DriverFactory<PostgresSessionTraits>
export function postgres(
  options: PostgresOptions & { readonly strategy?: 'row' },
): DriverFactory<PostgresTraits>
export function postgres(options: PostgresOptions): DriverFactory
export function postgres(options: PostgresOptions): DriverFactory {
  const settings = parseOptions(options)
  // Checks the client now, so that a wrong one is reported at once; sends nothing.
  const database = toDatabase(options.pool)
  if (settings.strategy === 'session') {
    const { unsuitable } = database
    if (unsuitable !== undefined)
      throw new UnsupportedError('postgres', "strategy 'session' over this instance", unsuitable)
    return sessionDriver(database, settings)
  }
  return rowDriver(database, chooseListener(database, settings), settings)
}

function chooseListener(database: Database, { listen }: Settings): Database | undefined {
  if (listen === false) return undefined
  return listen === undefined ? database : toDatabase(listen, 'listen')
}

function rowDriver(
  database: Database,
  listener: Database | undefined,
  settings: Settings,
): DriverFactory<PostgresTraits> {
  return (env): Driver<PostgresTraits> => {
    let runtime: Runtime | undefined
    let closed = false
    const open = (): Runtime => {
      if (closed) throw new BackendError('postgres', 'these locks were closed', { closed: true })
      runtime ??= createRuntime(database, listener, settings, env)
      return runtime
    }
    const result = async (ask: (runtime: Runtime) => Promise<{ answer: unknown }>): Promise<unknown> => {
      const at = open()
      try {
        return (await ask(at)).answer
      } catch (error) {
        throw toFailure(error).error
      }
    }
    return {
      name: 'postgres',
      traits,
      acquire(claim, wait) {
        return new Promise<Grant | undefined>((resolve, reject) => {
          new Waiter(open(), claim, wait, resolve, reject).ask()
        })
      },
      acquireMany: async (claims, wait) => acquireMany(open(), claims, wait),
      inspect: async (name) =>
        toLockStatus(
          name,
          await result(({ connections, calls }) => connections.execute(calls.inspect, [name])),
        ),
      async list(prefix) {
        const rows = await result(({ connections, calls }) => connections.execute(calls.list, [prefix]))
        const all = (rows as [string, unknown][]).map(([name, status]) => toLockStatus(name, status))
        return all.filter(({ holders, waiters }) => holders.length + waiters.length > 0)
      },
      forceRelease: async (name) =>
        Number(await result(({ connections, calls }) => connections.execute(calls.force, [name]))),
      cells: createCells(open),
      async close() {
        closed = true
        await runtime?.close()
      },
    }
  }
}
