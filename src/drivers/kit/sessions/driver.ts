/** Assembles a driver over sessions: the same checks and the same error messages for every store. */
import type { Cells } from '../../../core/cell.js'
import type {
  Claim,
  Driver,
  DriverFactory,
  Env,
  Grant,
  LockStatus,
  Traits,
  Wait,
} from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import type { Failure } from '../failure.js'
import type { SessionPool } from './session-pool.js'

/** The traits that all drivers over sessions share. */
export const sessionTraits: {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
} = Object.freeze({
  modes: ['exclusive', 'shared', 'permits'] as const,
  fair: true,
  shared: true,
  cells: true,
})

export interface SessionDriverParts<T extends Traits, D extends SessionPool = SessionPool> {
  readonly name: string
  readonly traits: T
  readonly pool: D
  readonly cells: Cells
  readonly toFailure: (error: unknown) => Failure
  waiter(
    claim: Claim,
    wait: Wait,
  ): {
    /** One attempt. */
    tryOnce(): Promise<Grant | undefined>
    /** Attempts until the wait is over. */
    tryUntilOver(): Promise<Grant | undefined>
  }
  /** Single attempts at several names in one step. Absent: the store cannot do that. */
  acquireMany?(claims: readonly Claim[], wait: Wait): Promise<readonly Grant[] | undefined>
  inspect(name: string): Promise<LockStatus>
  list(prefix: string): Promise<readonly LockStatus[]>
  forceRelease(name: string): Promise<number>
}

/**
 * The factory of such drivers, and the session pool of the driver it made last: a user's own transaction goes through that pool.
 * @param parts makes the parts of a driver for an environment
 */
export function sessionFactory<T extends Traits, D extends SessionPool>(
  parts: (env: Env) => SessionDriverParts<T, D>,
): { readonly factory: DriverFactory<T>; readonly current: (name: string) => D } {
  let pool: D | undefined
  return {
    factory: (env) => {
      const made = parts(env)
      pool = made.pool
      return sessionDriver(made)
    },
    current(name) {
      if (pool === undefined) throw new BackendError(name, 'pass this driver to createLocks first')
      pool.assertOpen()
      return pool
    },
  }
}

/** How long an operator's query is retried during temporary failures, in ms: longer than a cluster takes to elect another leader. */
const readTimeout = 10_000

function sessionDriver<T extends Traits>(parts: SessionDriverParts<T>): Driver<T> {
  const { name, traits, pool, cells, toFailure, acquireMany } = parts
  const guarded = async <R>(work: () => Promise<R>): Promise<R> => {
    pool.assertOpen()
    try {
      return await work()
    } catch (error) {
      throw toFailure(error).error
    }
  }
  /** Retries read-only work while the failure is temporary. */
  const read = async <R>(work: () => Promise<R>): Promise<R> => {
    const { clock, random } = pool.env
    const end = clock.now() + readTimeout
    const event = pool.registerEvent()
    try {
      for (;;) {
        pool.assertOpen()
        try {
          return await work()
        } catch (error) {
          const failure = toFailure(error)
          const pause = 200 * (0.5 + random())
          if (!failure.transient || clock.now() + pause > end) throw failure.error
          await event.wait(pause)
        }
      }
    } finally {
      pool.unregister(event)
    }
  }
  return {
    name,
    traits,
    async acquire(claim, wait) {
      pool.assertOpen()
      const waiter = parts.waiter(claim, wait)
      return wait.remaining() <= 0 ? waiter.tryOnce() : waiter.tryUntilOver()
    },
    ...(acquireMany !== undefined && {
      acquireMany: async (claims: readonly Claim[], wait: Wait) => {
        pool.assertOpen()
        return wait.ended ? undefined : acquireMany(claims, wait)
      },
    }),
    inspect: (name) => read(() => parts.inspect(name)),
    list: (prefix) => read(() => parts.list(prefix)),
    forceRelease: (name) => guarded(() => parts.forceRelease(name)),
    cells,
    close: () => pool.close(),
  }
}
