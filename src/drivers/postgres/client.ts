/**
 * What the driver needs from a PostgreSQL client, and what the clients look like. Types only: no client is imported; a pg 8+ `Pool`
 * and a postgres.js 3+ instance fit as they are. `pg.ts` and `postgres-js.ts` turn them into a {@link Database}; no other file knows
 * which client it is.
 */
import { describe } from '../../core/name.js'
import { fromPool } from './pg.js'
import { fromPostgresJs } from './postgres-js.js'

export type Value = string | number | null

/** Every statement of the driver returns one text. */
export type Answer = string

export interface ConnectionEvents {
  /** A notification arrived on a channel this connection listens to. */
  notified(payload: string): void
  /** Either side or the network ended the connection; no statement is answered any more. */
  closed(): void
}

/** The driver's own connection, outside the client's pool. */
export interface Connection {
  /** The server process id that the protocol reported; a pooler reports something else. Undefined: the client does not report it. */
  readonly pid: number | undefined
  /** Statements sent and not yet answered. */
  readonly busy: number
  /** Never settles if the server never answers: the caller sets timeouts. */
  query(text: string, values: readonly Value[]): Promise<Answer>
  /** Runs several statements without values as one transaction. */
  script(text: string): Promise<void>
  /** Gives up the connection at once, without waiting for anything. */
  destroy(): void
}

export interface Database {
  /** True once the owner has ended it: no connection can be opened any more. */
  readonly ended: boolean
  /** Present if it cannot carry a session: what to do instead. */
  readonly unsuitable?: string
  /** Opens a connection for the driver. */
  open(events: ConnectionEvents): Promise<Connection>
  /** Present if the client opens no connections for others but runs statements on those of its pool. */
  readonly shared?: {
    query(text: string, values: readonly Value[]): Promise<Answer>
    script(text: string): Promise<void>
    /** Calls `gone` whenever a connection of the pool has ended. Returns a function that stops this. */
    ended(gone: () => void): () => void
    /**
     * Listens on a separate connection, again after every break and failure; calls `up` each time. Resolves with a function that stops
     * it, at the first success.
     */
    listen(
      channel: string,
      onPayload: (payload: string) => void,
      up: () => void,
    ): Promise<() => Promise<void>>
  }
}

/** A pg `Pool`. It also has `Client`, the class of its connections, which its types omit. */
export interface PgPool {
  readonly options: object
  readonly ended: boolean
  readonly totalCount: number
}

/** What `sql.unsafe` of postgres.js returns. */
export interface PostgresJsQuery extends PromiseLike<unknown> {
  simple(): PromiseLike<unknown>
  raw(): PromiseLike<unknown>
}

/** A postgres.js instance. */
export interface PostgresJs {
  unsafe(text: string, values?: never[], options?: { readonly prepare?: boolean }): PostgresJsQuery
  listen(
    channel: string,
    onPayload: (payload: string) => void,
    up?: () => void,
  ): Promise<{ unlisten(): Promise<unknown> }>
  readonly options: {
    readonly max?: unknown
    readonly max_lifetime?: unknown
    readonly idle_timeout?: unknown
  }
}

/** What `postgres({ pool })` accepts. */
export type PostgresPool = PgPool | PostgresJs

/** @throws TypeError when `pool` is neither a pg `Pool` nor a postgres.js instance */
export function toDatabase(pool: unknown, what = 'pool'): Database {
  if (typeof pool === 'function' && 'unsafe' in pool && 'listen' in pool && 'options' in pool) {
    return fromPostgresJs(pool as unknown as PostgresJs)
  }
  if (typeof pool === 'object' && pool !== null && 'Client' in pool && 'options' in pool)
    return fromPool(pool as unknown as PgPool)
  throw new TypeError(
    `postgres: ${what} must be a Pool of pg or an instance of postgres.js, got ${describe(pool)}; a single pg Client cannot be shared`,
  )
}
