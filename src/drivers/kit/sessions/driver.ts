/** Assembles a driver over sessions: the same checks and the same error messages for every store. */
import type { Cells } from '../../../core/cell.js'
import type {
  Claim,
  Driver,
  DriverFactory,
  Env,
  Grant,
  Standing,
  Traits,
  Wait,
} from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import type { Trouble } from '../failure.js'
import type { SessionDesk } from './session-pool.js'

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

export interface SessionDriverParts<T extends Traits, D extends SessionDesk = SessionDesk> {
  readonly name: string
  readonly traits: T
  readonly desk: D
  readonly cells: Cells
  readonly troubleOf: (error: unknown) => Trouble
  waiter(
    claim: Claim,
    wait: Wait,
  ): {
    /** One attempt. */
    once(): Promise<Grant | undefined>
    /** Attempts until the wait is over. */
    long(): Promise<Grant | undefined>
  }
  /** Single attempts at several names in one step. Absent: the store cannot do that. */
  together?(claims: readonly Claim[], wait: Wait): Promise<readonly Grant[] | undefined>
  inspect(name: string): Promise<Standing>
  list(prefix: string): Promise<readonly Standing[]>
  forceRelease(name: string): Promise<number>
}

/**
 * The factory of such drivers, and the desk of the driver it made last: a user's own transaction goes through that desk.
 * @param parts makes the parts of a driver for an environment
 */
export function sessionFactory<T extends Traits, D extends SessionDesk>(
  parts: (env: Env) => SessionDriverParts<T, D>,
): { readonly factory: DriverFactory<T>; readonly newest: (name: string) => D } {
  let desk: D | undefined
  return {
    factory: (env) => {
      const made = parts(env)
      desk = made.desk
      return sessionDriver(made)
    },
    newest(name) {
      if (desk === undefined) throw new BackendError(name, 'it was not given to createLocks yet')
      desk.assertOpen()
      return desk
    },
  }
}

/** How long an operator's query is retried during temporary trouble, in ms: longer than a cluster takes to elect another leader. */
const patience = 10_000

function sessionDriver<T extends Traits>(parts: SessionDriverParts<T>): Driver<T> {
  const { name, traits, desk, cells, troubleOf, together } = parts
  const told = async <R>(work: () => Promise<R>): Promise<R> => {
    desk.assertOpen()
    try {
      return await work()
    } catch (error) {
      throw troubleOf(error).error
    }
  }
  /** Retries read-only work while the trouble is temporary. */
  const read = async <R>(work: () => Promise<R>): Promise<R> => {
    const { clock, random } = desk.env
    const end = clock.now() + patience
    const bell = desk.bell()
    try {
      for (;;) {
        desk.assertOpen()
        try {
          return await work()
        } catch (error) {
          const trouble = troubleOf(error)
          const pause = 200 * (0.5 + random())
          if (!trouble.passing || clock.now() + pause > end) throw trouble.error
          await bell.rest(pause)
        }
      }
    } finally {
      desk.quit(bell)
    }
  }
  return {
    name,
    traits,
    async acquire(claim, wait) {
      desk.assertOpen()
      const waiter = parts.waiter(claim, wait)
      return wait.remaining() <= 0 ? waiter.once() : waiter.long()
    },
    ...(together !== undefined && {
      together: async (claims: readonly Claim[], wait: Wait) => {
        desk.assertOpen()
        return wait.over ? undefined : together(claims, wait)
      },
    }),
    inspect: (name) => read(() => parts.inspect(name)),
    list: (prefix) => read(() => parts.list(prefix)),
    forceRelease: (name) => told(() => parts.forceRelease(name)),
    cells,
    close: () => desk.close(),
  }
}
