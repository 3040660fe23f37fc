/** The options of `mysql()`, checked once. */

import { UnsupportedError } from '../../core/errors.js'
import { checkKnown } from '../../core/known-options.js'
import { describe } from '../../core/name.js'
import { checkPool, type MysqlPool } from './client.js'

export interface MysqlOptions {
  /**
   * A pool made by `createPool` of `mysql2/promise` or `mariadb`. It stays yours: the driver does not close it. A small pool of its own
   * protects locks from an application that uses up its connections.
   */
  readonly pool: MysqlPool
  /**
   * What proves that a lock is held. `row` (default): a row with an expiry by the server's clock, renewed; no connection is
   * kept. `session`: `GET_LOCK` on one connection kept for all locks of this process; a crash frees them at once.
   * For a lock that lives in your own transaction, use `inTransaction()`.
   */
  readonly strategy?: 'row' | 'session'
  /**
   * Wakes the next waiter at once instead of within 50 ms: the holder keeps a `GET_LOCK` that the next waiter waits for. Costs one
   * connection for holding and one for waiting in each process, and two more statements per hold. `row` only. Default false.
   */
  readonly wakeWithGetLock?: boolean
  /** Prefix of the table names. Letters, digits and `_`. Default `holdfast_`. */
  readonly prefix?: string
  /** Whether the driver creates what is missing on first use. Default true. `false`: it uses only what `migration()` printed. */
  readonly create?: boolean
  /** The most pool connections in use at once. Each is used for one statement at a time. Default 4. */
  readonly connections?: number
  /** How long one statement may go unanswered, in ms. Default 2_000. Transient errors are retried for as long as the wait lasts. */
  readonly commandTimeout?: number
  /** How long the row of an unused lock stays, in ms. Default 86_400_000 (one day). */
  readonly retention?: number
}

export interface Settings {
  readonly pool: MysqlPool
  readonly strategy: 'row' | 'session'
  readonly wakeWithGetLock: boolean
  readonly prefix: string
  readonly create: boolean
  readonly connections: number
  readonly commandTimeout: number
  readonly retention: number
}

const known: readonly (keyof MysqlOptions)[] = [
  'pool',
  'strategy',
  'wakeWithGetLock',
  'prefix',
  'create',
  'connections',
  'commandTimeout',
  'retention',
]

/** @throws TypeError, RangeError or UnsupportedError with the value received */
export function parseOptions(options: MysqlOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`mysql() takes options such as { pool }, got ${describe(options)}`)
  }
  const strategy = parseStrategy(options.strategy ?? 'row')
  const wakeWithGetLock = flag('wakeWithGetLock', options.wakeWithGetLock ?? false)
  if (wakeWithGetLock && strategy === 'session') {
    throw new RangeError(
      `mysql: wakeWithGetLock is for strategy 'row'; with 'session' the lock itself is a GET_LOCK`,
    )
  }
  checkKnown('mysql()', options, known)
  return {
    pool: checkPool(options.pool),
    strategy,
    wakeWithGetLock,
    prefix: parsePrefix(options.prefix ?? 'holdfast_'),
    create: flag('create', options.create ?? true),
    connections: whole('connections', options.connections ?? 4, 1, 100),
    commandTimeout: whole('commandTimeout', options.commandTimeout ?? 2_000, 10, 600_000),
    retention: whole('retention', options.retention ?? 86_400_000, 1_000, maxTime),
  }
}

/** One year, in ms: a longer time is a unit mistake. */
const maxTime = 366 * 24 * 3_600_000

function parseStrategy(value: unknown): 'row' | 'session' {
  if (value === 'row' || value === 'session') return value
  if (value === 'transaction') {
    throw new UnsupportedError(
      'mysql',
      'leases for locks inside a transaction of yours',
      'call inTransaction(connection, name) from holdfast/mysql inside the transaction',
    )
  }
  throw new RangeError(`mysql: strategy must be one of row, session, got ${describe(value)}`)
}

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number')
    throw new TypeError(`mysql: ${name} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`mysql: ${name} must be a whole number from ${least} to ${most}, got ${value}`)
  }
  return value
}

function flag(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean')
    throw new TypeError(`mysql: ${name} must be true or false, got ${describe(value)}`)
  return value
}

export function parsePrefix(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError(`mysql: prefix must be a string, got ${describe(value)}`)
  if (!/^\w{1,40}$/.test(value)) {
    throw new RangeError(`mysql: prefix must be 1 to 40 letters, digits and _, got ${describe(value)}`)
  }
  return value
}
