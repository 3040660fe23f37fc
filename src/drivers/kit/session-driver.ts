/** A driver over sessions, put together: what is asked of it is checked and told in the same words, whichever the store. */
import type { Cells } from '../../core/cell.js'
import type { Claim, Driver, Grant, Standing, Traits, Wait } from '../../core/driver.js'
import type { SessionDesk } from './session-desk.js'
import type { Trouble } from './trouble.js'

export interface SessionDriverParts<T extends Traits> {
  readonly name: string
  readonly traits: T
  readonly desk: SessionDesk
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
  inspect(name: string): Promise<Standing>
  list(prefix: string): Promise<readonly Standing[]>
  forceRelease(name: string): Promise<number>
}

/** How long a question of an operator outlives passing trouble, in ms: longer than a cluster takes to elect another leader. */
const patience = 10_000

export function sessionDriver<T extends Traits>(parts: SessionDriverParts<T>): Driver<T> {
  const { name, traits, desk, cells, troubleOf } = parts
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
    inspect: (name) => read(() => parts.inspect(name)),
    list: (prefix) => read(() => parts.list(prefix)),
    forceRelease: (name) => told(() => parts.forceRelease(name)),
    cells,
    close: () => desk.close(),
  }
}
