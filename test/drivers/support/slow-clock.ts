// A clock a hundred times slower than the true one: on the busiest machine messages come fast by it, and nothing is done by itself.
import type { Clock } from '../../../src/core/clock.js'
import { systemEnv } from '../../../src/core/engine.js'

export function slowClock(): Clock {
  const { clock } = systemEnv()
  const start = clock.now()
  return {
    ...clock,
    now: () => start + (clock.now() - start) / 100,
    at: (time, fn, options) => clock.at(start + (time - start) * 100, fn, options),
  }
}
