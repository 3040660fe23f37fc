/** The broker's cells as one client sees them. */
import type { Cell, Cells } from '../../core/cell.js'
import { doneOrThrow } from './grant.js'
import type { Verb } from './protocol.js'
import type { Session } from './session.js'

let watchTimeout = 0

export function cellsOver(session: Session): Cells {
  const ask = async (verb: Verb, signal: AbortSignal, timeout?: number) =>
    doneOrThrow((await session.call(verb, signal, timeout)).answer)
  return {
    read: async (key, signal) => ((await ask(['read', key], signal)) ?? undefined) as Cell | undefined,

    async write(key, { ifVersion, value, ttl, id }, signal) {
      const ms = Number.isFinite(ttl) ? ttl : null
      const cell = await ask(['write', key, ifVersion, value ?? null, ms, id], signal)
      return (cell ?? undefined) as Cell | undefined
    },

    async changed(key, version, signal) {
      const watch = `${session.id}:${++watchTimeout}`
      try {
        await ask(['watch', key, version, watch], signal, Number.POSITIVE_INFINITY)
      } catch (error) {
        // In the background: no caller waits for the broker to drop the watch.
        if (signal.aborted) session.call(['unwatch', key, watch], undefined, 100).catch(() => undefined)
        throw error
      }
    },
  }
}
