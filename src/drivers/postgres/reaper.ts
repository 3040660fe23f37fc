/** Forgets names nobody has used for `retention`: every ten minutes or so, in the background, by whoever uses locks then. */
import type { Env } from '../../core/driver.js'
import type { Lane } from './lane.js'
import type { Settings } from './options.js'
import type { Calls } from './sql.js'

export interface Reaper {
  /** Is it time? Costs nothing if not. */
  look(): void
  close(): Promise<void>
}

const every = 600_000

export function createReaper(
  lane: Lane,
  calls: Calls,
  { retention }: Settings,
  { clock, random }: Env,
): Reaper {
  let next = clock.now() + every * random()
  let running: Promise<void> | undefined
  const reap = async () => {
    try {
      for (;;) {
        const { answer } = await lane.ask(calls.reap, [Math.round(retention * 1000)])
        if (Number(answer) < 1000) break
      }
      await lane.ask(calls.cellReap, [Math.round(retention * 1000)])
    } catch {
      // Next time.
    }
  }
  return {
    look() {
      if (retention === Number.POSITIVE_INFINITY || running !== undefined || clock.now() < next) return
      next = clock.now() + every * (0.5 + random())
      running = reap().finally(() => {
        running = undefined
      })
    },
    close: async () => running,
  }
}
