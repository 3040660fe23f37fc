/** One timer for each row on which somebody waits, for the moment its first hold is overdue. */
import type { Clock } from '../../core/clock.js'
import { nextExpiry, type Row } from './row.js'

export interface RowTimers {
  /** Tells how the row is now. */
  follow(row: Row): void
  stop(): void
}

/** @param due looks at the row of that name again, and tells what became of it. */
export function makeRowTimers(clock: Clock, due: (name: string) => void): RowTimers {
  const timers = new Map<string, { readonly at: number; readonly stop: () => void }>()

  function follow(row: Row): void {
    const waited = row.line.length > 0
    if (!waited && timers.size === 0) return
    const { name } = row
    const at = waited ? nextExpiry(row) : Number.POSITIVE_INFINITY
    const before = timers.get(name)
    // One that is early is left alone and set again when it fires: most hand-overs then touch no timer at all.
    if (before !== undefined && before.at <= at && waited) return
    before?.stop()
    timers.delete(name)
    if (at === Number.POSITIVE_INFINITY) return
    // It keeps the process alive: somebody waits, and time alone may be what serves him.
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
