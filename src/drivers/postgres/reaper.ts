/**
 * Deletes names unused for `retention`. Processes that use locks do this in the background: about every ten minutes, more often if the
 * retention is shorter.
 */
import type { Env } from '../../core/driver.js'
import type { Value } from './client.js'
import type { Settings } from './options.js'
import type { Call, Calls } from './sql.js'

export interface Reaper {
  /** Starts a run if one is due; otherwise costs nothing. */
  sweepIfDue(): void
  close(): Promise<void>
}

const maxInterval = 600_000

export function createReaper(
  ask: (call: Call, values: readonly Value[]) => Promise<{ readonly answer: unknown }>,
  calls: Calls,
  { retention }: Settings,
  { clock, random }: Env,
): Reaper {
  const every = Math.min(maxInterval, retention)
  let next = clock.now() + every * random()
  let running: Promise<void> | undefined
  const reap = async () => {
    try {
      for (;;) {
        const { answer } = await ask(calls.reap, [Math.round(retention * 1000)])
        if (Number(answer) < 1000) break
      }
      await ask(calls.cellReap, [Math.round(retention * 1000)])
    } catch {
      // The next run tries again.
    }
  }
  return {
    sweepIfDue() {
      if (retention === Number.POSITIVE_INFINITY || running !== undefined || clock.now() < next) return
      next = clock.now() + every * (0.5 + random())
      running = reap().finally(() => {
        running = undefined
      })
    },
    close: async () => running,
  }
}
