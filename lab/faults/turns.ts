/** Faults that last: done again and again, and one after the other. */
import type { Fault, Undo } from './store.js'

/**
 * Rows nobody has used for so many ttls are forgotten, and a server's clock goes back by less, and not again before that. What is
 * forgotten *and* ahead of a clock set back is a weak point of every store (docs/guarantees.md): no `retention` is under a minute.
 */
export const forgottenAfter = 12

/** Does something again and again, so many ms apart, until it is undone. */
export function again(ms: number, work: () => Promise<unknown>): Undo {
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

/** What is undone slowly (a database that starts) is over before the next thing is done to the same subject. */
export function inTurn(faults: readonly Fault[]): Fault[] {
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
