/**
 * What the driver needs of a PostgreSQL client, and what the clients look like. Types only: no client is imported, a ready-made
 * `Pool` of pg 8+ and a postgres.js 3+ instance fit as they are. `pg.ts` and `postgres-js.ts` make a {@link Database} of them;
 * nothing else knows which it is.
 */
import { describe } from '../../core/name.js'
import { fromPool } from './pg.js'
import { fromPostgresJs } from './postgres-js.js'

export type Value = string | number | null

/** Every statement of the driver answers one text. */
export type Answer = string

export interface WireEvents {
  /** Something was notified on a channel this connection listens to. */
  notified(payload: string): void
  /** It has ended, by either side or the network; nothing is answered any more. */
  gone(): void
}

/** A connection of the driver's own, beside the client's pool. */
export interface Wire {
  /** The server process, as the protocol told it; a pooler tells something else. Undefined: the client does not say. */
  readonly pid: number | undefined
  /** Statements sent and not yet answered. */
  readonly busy: number
  /** Never settles if the server never answers: time-outs are the caller's. */
  query(text: string, values: readonly Value[]): Promise<Answer>
  /** Several statements without values, as one transaction. */
  script(text: string): Promise<void>
  /** At once, without waiting for anything. */
  destroy(): void
}

export interface Database {
  /** Ended by its owner: nothing can be opened any more. */
  readonly ended: boolean
  /** Why it cannot carry a session: what to do instead. */
  readonly unfit?: string
  /** Opens a connection of the driver's own. */
  open(events: WireEvents): Promise<Wire>
  /** Present where the client opens no connection for others but runs statements on those of its pool. */
  readonly shared?: {
    query(text: string, values: readonly Value[]): Promise<Answer>
    script(text: string): Promise<void>
    /** Listens on a connection of its own, again after every break. `up` each time. Resolves with what ends it. */
    listen(channel: string, heard: (payload: string) => void, up: () => void): Promise<() => Promise<void>>
  }
}

/** A `Pool` of pg. It also has `Client`, the class of its connections, which its types do not tell. */
export interface PgPool {
  readonly options: object
  readonly ended: boolean
  readonly totalCount: number
}

/** What `sql.unsafe` of postgres.js gives. */
export interface PostgresJsQuery extends PromiseLike<unknown> {
  simple(): PromiseLike<unknown>
}

/** A postgres.js instance. */
export interface PostgresJs {
  unsafe(text: string, values?: never[], options?: { readonly prepare?: boolean }): PostgresJsQuery
  listen(
    channel: string,
    heard: (payload: string) => void,
    up?: () => void,
  ): Promise<{ unlisten(): Promise<unknown> }>
  readonly options: {
    readonly max?: unknown
    readonly max_lifetime?: unknown
    readonly idle_timeout?: unknown
  }
}

/** Whatever `postgres({ pool })` takes. */
export type PostgresPool = PgPool | PostgresJs

/** @throws TypeError when it is neither */
export function databaseOf(pool: unknown, what = 'pool'): Database {
  if (typeof pool === 'function' && 'unsafe' in pool && 'listen' in pool && 'options' in pool) {
    return fromPostgresJs(pool as unknown as PostgresJs)
  }
  if (typeof pool === 'object' && pool !== null && 'Client' in pool && 'options' in pool)
    return fromPool(pool as unknown as PgPool)
  throw new TypeError(
    `postgres: ${what} must be a Pool of pg or an instance of postgres.js, got ${describe(pool)}; a single pg Client cannot be shared`,
  )
}
