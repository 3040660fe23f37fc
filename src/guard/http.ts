/**
 * A guard in front of a resource behind HTTP: it answers stale requests with 412 Precondition Failed.
 *
 * Comparing on arrival is not enough by itself: an admitted request may still be at work when a newer one comes. So
 * in one process the requests of one lock name are handled one after the other; the newer one waits until the older
 * has ended. Where several processes serve the same resource, each write has to be guarded too: `getFence(request)`
 * gives the fence for it, and the resulting StaleTokenError is answered with 412 as well.
 *
 * Anybody who may call the resource may send any plausible token under its name; that is not proof of a lease. Put
 * the guard behind the code that decides who may write.
 */
import type { Fence } from './fence.js'
import { admitToken, type RedisGuardClient } from './redis.js'
import type { Sql } from './sql-client.js'
import { admit, type FenceTable } from './sql-guard.js'

/** Keeps the newest token of each name. */
export interface Fences {
  /** In one step: refuses a token older than the newest, else remembers it. @throws StaleTokenError */
  admit(fence: Fence): Promise<void>
}

/** Shared by all processes that serve the resource. */
export function redisFences(client: RedisGuardClient, prefix = 'holdfast:fence:'): Fences {
  return {
    async admit(fence) {
      await admitToken(client, fence, prefix + fence.name)
    },
  }
}

/** Shared by all processes that serve the resource: uses the table of `admit`. `db` is a pool: each token is a transaction of its own. */
export function sqlFences(db: Sql, table?: FenceTable): Fences {
  return { admit: (fence) => admit(db, fence, table) }
}

export interface HttpGuardOptions<Request> {
  readonly fences: Fences
  /**
   * The lock that protects the resource, or a function that returns it for a request. A header with another name is
   * refused: otherwise a stale token would pass under an invented name.
   */
  readonly name: string | ((request: Request) => string)
  /** Let requests without the header pass, unguarded. @default false: 428 Precondition Required */
  readonly optional?: boolean
  /**
   * Milliseconds by which a token may be ahead of this machine's clock; no store has granted a token further ahead,
   * and it is refused. @default 3_600_000, an hour
   */
  readonly ahead?: number
  /** Most bytes of a request's body, which is read before its turn. @default 1 MiB */
  readonly maxBody?: number
  /** Milliseconds for the body to arrive (else 408), the turn (409) and the reply of `fences` (503). @default 10_000 */
  readonly wait?: number
  /**
   * Milliseconds that a handler may keep the other requests of its lock waiting: then it is cut off and the next one
   * is admitted. @default 60_000
   */
  readonly limit?: number
  /** Receives the error when `fences` failed. @default a warning of the process, once for each outage */
  readonly onError?: (error: unknown) => void
}
