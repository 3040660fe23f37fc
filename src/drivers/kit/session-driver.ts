/** A driver over sessions, put together: what is asked of it is checked and told in the same words, whichever the store. */
import type { Cells } from '../../core/cell.js'
import type { Claim, Driver, DriverFactory, Env, Grant, Standing, Traits, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import type { SessionDesk } from './session-desk.js'
import type { Trouble } from './trouble.js'

/** What all of these can do. */
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
    /** Until the wait is over. */
    long(): Promise<Grant | undefined>
  }
  /** Single attempts at several names in one step; absent: it cannot. */
  together?(claims: readonly Claim[], wait: Wait): Promise<readonly Grant[] | undefined>
  inspect(name: string): Promise<Standing>
  list(prefix: string): Promise<readonly Standing[]>
  forceRelease(name: string): Promise<number>
}

/**
 * The factory of such drivers, and the desk of the one it made last: through that a user's own transaction goes.
 * @param parts of a driver in an environment
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

/** How long a question of an operator outlives passing trouble, in ms: longer than a cluster takes to elect another leader. */
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
  /** What only reads is asked again while the trouble is passing. */
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
