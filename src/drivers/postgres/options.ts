/** The options of `postgres()`, checked once. */

import { UnsupportedError } from '../../core/errors.js'
import { checkKnown } from '../../core/known-options.js'
import { describe } from '../../core/name.js'
import type { PostgresPool } from './client.js'
import { defaultNamespace } from './session/key.js'
import { checkedIdentifier } from './sql.js'

export interface PostgresOptions {
  /**
   * Your pg `Pool` or postgres.js instance. It stays yours: the driver does not end it. With pg, the driver opens its own
   * connections with the pool's settings and takes none of the pool's. postgres.js opens no connections outside its pool: give the
   * driver its own instance; otherwise requests that use up your connections keep locks from being released. The driver adds a listener to that
   * instance's `onclose`, and still calls yours.
   */
  readonly pool: PostgresPool
  /**
   * `row` (default): a lock is a row with a lease; works through any pooler. `session`: advisory locks on one connection that
   * stays open; they end with it. For a lock that lives in your own transaction, use `inTransaction()`.
   */
  readonly strategy?: 'row' | 'session'
  /**
   * How grants are pushed to this process. Default: over the driver's own connection (pg) or one that postgres.js opens. When `pool`
   * goes through a transaction pooler, where LISTEN does not work, pass a pool or instance that connects directly to the server.
   * `false`: never listen; waiters poll.
   */
  readonly listen?: PostgresPool | false
  /** Schema of the tables and functions. Default `public`. */
  readonly schema?: string
  /** Whether the driver creates what is missing on first use. Default true. `false`: it uses only what `migration()` printed. */
  readonly create?: boolean
  /** The most connections the driver opens (pg). One stays open; the others open under load and close after 10 s. Default 4. */
  readonly connections?: number
  /** How long one statement may go unanswered, in ms. Default 2_000. Transient errors are retried for as long as the wait lasts. */
  readonly commandTimeout?: number
  /** How long an unused name keeps its row, in ms. Default 86_400_000 (one day). `Infinity`: forever. */
  readonly retention?: number
  /** Strategy `session` only: separates the locks from other programs' advisory locks and other uses of the same names. Default `holdfast`. */
  readonly namespace?: string
}

export interface Settings {
  readonly strategy: 'row' | 'session'
  readonly listen: PostgresPool | false | undefined
  readonly schema: string
  readonly create: boolean
  readonly connections: number
  readonly commandTimeout: number
  readonly retention: number
  readonly namespace: string
}

/** One year, in ms: a longer time is a unit mistake. */
const maxTime = 366 * 24 * 3_600_000

const known: readonly (keyof PostgresOptions)[] = [
  'pool',
  'strategy',
  'listen',
  'schema',
  'create',
  'connections',
  'commandTimeout',
  'retention',
  'namespace',
]

/** @throws TypeError, RangeError or UnsupportedError with the value received */
export function parseOptions(options: PostgresOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`postgres() takes options such as { pool }, got ${describe(options)}`)
  }
  const strategy = parseStrategy(options.strategy ?? 'row')
  const retention = options.retention ?? 86_400_000
  checkKnown('postgres()', options, known)
  return {
    strategy,
    listen: options.listen,
    schema: checkedIdentifier('schema', options.schema ?? 'public'),
    create: flag('create', options.create ?? true),
    connections: whole('connections', options.connections ?? 4, 1, 100),
    commandTimeout: whole('commandTimeout', options.commandTimeout ?? 2_000, 10, 600_000),
    retention:
      retention === Number.POSITIVE_INFINITY ? retention : whole('retention', retention, 60_000, maxTime),
    namespace: namespaceFor(strategy, options.namespace),
  }
}

function parseStrategy(value: unknown): 'row' | 'session' {
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

function namespaceFor(strategy: Settings['strategy'], value: unknown): string {
  if (value === undefined) return defaultNamespace
  const namespace = checkedNamespace(value)
  if (strategy === 'session' || namespace === defaultNamespace) return namespace
  throw new UnsupportedError(
    'postgres',
    `namespace ${describe(namespace)} with strategy 'row', whose locks are apart by schema`,
    'give each its own schema: postgres({ pool, schema })',
  )
}

/** @throws TypeError with the value received */
export function checkedNamespace(value: unknown): string {
  // Control characters separate the namespace from names.
  if (typeof value === 'string' && value !== '' && !/\p{Cc}/u.test(value)) return value
  throw new TypeError(
    `postgres: namespace must be a text that is not empty and has no control characters, got ${describe(value)}`,
  )
}
