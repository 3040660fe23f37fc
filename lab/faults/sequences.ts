/** Faults with a duration: repeated actions, and faults in sequence. */
import type { Fault, Undo } from './store.js'

/**
 * Rows unused for this many ttls are forgotten. A server's clock goes back by less, and not again before that time has passed. A row that
 * is forgotten *and* ahead of a clock set back is a weak point of every store (docs/guarantees.md): no `retention` is under a minute.
 */
export const forgottenAfter = 12

/** Repeats an action, `ms` apart, until it is undone. */
export function repeatEvery(ms: number, work: () => Promise<unknown>): Undo {
  let over = false
  const loop = async () => {
    while (!over) {
      await work()
      await new Promise((resolve) => setTimeout(resolve, ms))
    }
  }
  const done = loop()
  return () => {
    over = true
    return done
  }
}

/** Finishes a slow undo (a database that starts) before the next fault of the same subject. */
export function inSequence(faults: readonly Fault[]): Fault[] {
  const last = new Map<string, Promise<void>>()
  return faults.map((fault) => ({
    ...fault,
    begin: async (act) => {
      const before = last.get(act.subject)
      let over = () => {}
      const done = new Promise<void>((resolve) => {
        over = resolve
      })
      last.set(act.subject, done)
      await before
      try {
        const undo = await fault.begin(act)
        return async () => {
          try {
            await undo?.()
          } finally {
            over()
          }
        }
      } catch (error) {
        over()
        throw error
      }
    },
  }))
}
