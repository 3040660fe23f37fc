// A clock slower than the true one: on the busiest machine messages come fast by it, and if it is a hundred times slower nothing is done by
// itself.
import type { Clock } from '../../../src/core/clock.js'
import { systemEnv } from '../../../src/core/engine.js'

export function slowClock(times = 100): Clock {
  const { clock } = systemEnv()
  const start = clock.now()
  return {
    ...clock,
    now: () => start + (clock.now() - start) / times,
    at: (time, fn, options) => clock.at(start + (time - start) * times, fn, options),
  }
}
