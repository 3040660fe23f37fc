/** One timer per row with waiters, for the moment its first hold is overdue. */
import type { Clock } from '../../core/clock.js'
import { nextExpiry, type Row } from './row.js'

export interface RowTimers {
  /** Adjusts the timer to the present state of the row. */
  follow(row: Row): void
  stop(): void
}

/** @param due checks the row of that name again, and passes the result to `follow` */
export function createRowTimers(clock: Clock, due: (name: string) => void): RowTimers {
  const timers = new Map<string, { readonly at: number; readonly stop: () => void }>()

  function follow(row: Row): void {
    const waited = row.queue.length > 0
    if (!waited && timers.size === 0) return
    const { name } = row
    const at = waited ? nextExpiry(row) : Number.POSITIVE_INFINITY
    const before = timers.get(name)
    // An early timer stays and is set again when it fires: most hand-overs then touch no timer at all.
    if (before !== undefined && before.at <= at && waited) return
    before?.stop()
    timers.delete(name)
    if (at === Number.POSITIVE_INFINITY) return
    // The timer keeps the process alive: there are waiters, and expiry may be the only thing that serves them.
    const stop = clock.at(at, () => {
      timers.delete(name)
      due(name)
    })
    timers.set(name, { at, stop })
  }

  function stop(): void {
    for (const timer of timers.values()) timer.stop()
    timers.clear()
  }

  return { follow, stop }
}
