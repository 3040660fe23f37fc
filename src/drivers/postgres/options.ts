/** What `postgres()` takes, checked once. */

import { UnsupportedError } from '../../core/errors.js'
import { describe } from '../../core/name.js'
import type { PostgresPool } from './client.js'
import { checkedIdentifier } from './sql.js'

export interface PostgresOptions {
  /**
   * A ready-made `Pool` of pg or instance of postgres.js. It stays yours: nothing on it is changed, and it is not ended. With pg the
   * driver opens connections of its own with the pool's settings and takes none of the pool's. postgres.js opens
   * connections for nobody else: give the driver an instance of its own, or requests that use up yours keep locks from being released.
   */
  readonly pool: PostgresPool
  /**
   * `row` (default): a lock is a row with a lease; works through any pooler. `session`: advisory locks of one connection that
   * stays open; they end with it. For a lock that lives in a transaction of yours there is `inTransaction()`.
   */
  readonly strategy?: 'row' | 'session'
  /**
   * How grants are pushed to this process: by default over the driver's own connection (pg) or one that postgres.js makes. A pool or
   * instance that reaches the server directly, when `pool` goes through a transaction pooler, where LISTEN does not work. `false`:
   * never listen, wait by polling.
   */
  readonly listen?: PostgresPool | false
  /** Where the tables and functions are. Default `public`. */
  readonly schema?: string
  /** Create what is missing at the first use? Default true; `false`: only what `migration()` printed is used. */
  readonly create?: boolean
  /** The most connections the driver opens (pg). One stays; the others come with load and go after 10 s. Default 4. */
  readonly connections?: number
  /** How long one statement may go unanswered, in ms. Default 2_000. Passing trouble is retried for as long as the wait lasts. */
  readonly commandTimeout?: number
  /** How long a waiter that was handed the lock holds it before its process has said a word, in ms. Default 1_000. */
  readonly claim?: number
  /** How long a name nobody uses keeps its row, in ms. Default 86_400_000, a day. `Infinity`: for ever. */
  readonly retention?: number
  /** `session`: set apart from other programs' advisory locks, and from other uses of the same names. Default `holdfast`. */
  readonly namespace?: string
}

export interface Settings {
  readonly strategy: 'row' | 'session'
  readonly listen: PostgresPool | false | undefined
  readonly schema: string
  readonly create: boolean
  readonly connections: number
  readonly commandTimeout: number
  readonly claim: number
  readonly retention: number
  readonly namespace: string
}

/** A year, in ms: longer times are a mistake of units. */
const longest = 366 * 24 * 3_600_000

/** @throws TypeError, RangeError, UnsupportedError with the value got */
export function settingsOf(options: PostgresOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`postgres() takes options such as { pool }, got ${describe(options)}`)
  }
  const retention = options.retention ?? 86_400_000
  return {
    strategy: strategyOf(options.strategy ?? 'row'),
    listen: options.listen,
    schema: checkedIdentifier('schema', options.schema ?? 'public'),
    create: flag('create', options.create ?? true),
    connections: whole('connections', options.connections ?? 4, 1, 100),
    commandTimeout: whole('commandTimeout', options.commandTimeout ?? 2_000, 10, 600_000),
    claim: whole('claim', options.claim ?? 1_000, 50, 60_000),
    retention:
      retention === Number.POSITIVE_INFINITY ? retention : whole('retention', retention, 60_000, longest),
    namespace: text('namespace', options.namespace ?? 'holdfast'),
  }
}

function strategyOf(value: unknown): 'row' | 'session' {
  if (value === 'row' || value === 'session') return value
  if (value === 'transaction') {
    throw new UnsupportedError(
      'postgres',
      "strategy 'transaction' for createLocks: such a lock is the transaction's own and has no lease",
      'call inTransaction(client, name) from holdfast/postgres inside the transaction',
    )
  }
  throw new RangeError(`postgres: strategy must be 'row' or 'session', got ${describe(value)}`)
}

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number')
    throw new TypeError(`postgres: ${name} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`postgres: ${name} must be a whole number from ${least} to ${most}, got ${value}`)
  }
  return value
}

function flag(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean')
    throw new TypeError(`postgres: ${name} must be true or false, got ${describe(value)}`)
  return value
}

function text(name: string, value: unknown): string {
  if (typeof value !== 'string' || value === '')
    throw new TypeError(`postgres: ${name} must be a text that is not empty, got ${describe(value)}`)
  return value
}
