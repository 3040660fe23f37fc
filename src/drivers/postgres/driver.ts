/** `postgres()` and the driver it makes. `sql.ts` decides who holds a lock; `waiter.ts` and `hold.ts` send the statements. */
import type { Driver, DriverFactory, Grant, Traits } from '../../core/driver.js'
import { BackendError, UnsupportedError } from '../../core/errors.js'
import { takeTogether } from './acquire-many.js'
import { cellsOver } from './cells.js'
import { type Database, databaseOf } from './client.js'
import { troubleOf } from './failure.js'
import { standingOf } from './inspect.js'
import { type PostgresOptions, type Settings, settingsOf } from './options.js'
import { createDesk, type Desk } from './runtime.js'
import { sessionDriver } from './session/driver.js'
import { Waiter } from './waiter.js'

export interface PostgresTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly together: true
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
  together: true as const,
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
  const settings = settingsOf(options)
  // Checks the client now, so that a wrong one is reported at once; sends nothing.
  const database = databaseOf(options.pool)
  if (settings.strategy === 'session') {
    const { unfit } = database
    if (unfit !== undefined)
      throw new UnsupportedError('postgres', "strategy 'session' over this instance", unfit)
    return sessionDriver(database, settings)
  }
  return rowDriver(database, listenerOf(database, settings), settings)
}

function listenerOf(database: Database, { listen }: Settings): Database | undefined {
  if (listen === false) return undefined
  return listen === undefined ? database : databaseOf(listen, 'listen')
}

function rowDriver(
  database: Database,
  listener: Database | undefined,
  settings: Settings,
): DriverFactory<PostgresTraits> {
  return (env): Driver<PostgresTraits> => {
    let desk: Desk | undefined
    let closed = false
    const open = (): Desk => {
      if (closed) throw new BackendError('postgres', 'these locks were closed', { closed: true })
      desk ??= createDesk(database, listener, settings, env)
      return desk
    }
    const told = async (ask: (desk: Desk) => Promise<{ answer: unknown }>): Promise<unknown> => {
      const at = open()
      try {
        return (await ask(at)).answer
      } catch (error) {
        throw troubleOf(error).error
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
      together: async (claims, wait) => takeTogether(open(), claims, wait),
      inspect: async (name) =>
        standingOf(name, await told(({ lane, calls }) => lane.ask(calls.inspect, [name]))),
      async list(prefix) {
        const rows = await told(({ lane, calls }) => lane.ask(calls.list, [prefix]))
        const all = (rows as [string, unknown][]).map(([name, standing]) => standingOf(name, standing))
        return all.filter(({ holders, waiters }) => holders.length + waiters.length > 0)
      },
      forceRelease: async (name) => Number(await told(({ lane, calls }) => lane.ask(calls.force, [name]))),
      cells: cellsOver(open),
      async close() {
        closed = true
        await desk?.close()
      },
    }
  }
}
