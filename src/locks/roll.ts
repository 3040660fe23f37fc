/**
 * Who takes part: participants hold a shared lease of the name, and their attempts stand in a cell. Who is in the cell and
 * holds no lease has died or gone: the lease is taken before, and given back after, the name stands there.
 */
import { EngineLock } from '../core/acquire.js'
import type { Bounds } from '../core/bounded.js'
import type { Box } from '../core/box.js'
import { shared } from '../core/mode.js'
import { noPermits } from './no-permits.js'

export interface Roll {
  /** What participants hold. */
  readonly lock: EngineLock
  /** Those of them whose lease the store still knows. No request when there are none. */
  living(attempts: readonly string[], bounds: Bounds): Promise<readonly string[]>
}

/** How often it is looked whether participants live, in ms, while somebody waits for them: a lease that ends changes no cell. */
export const lookEvery = 500

/** @throws UnsupportedError when the driver has no shared mode */
export function rollOf(box: Box, name: string, what: string): Roll {
  const { engine } = box
  const lock = new EngineLock(engine, name, 'shared', noPermits(what, shared))
  return {
    lock,
    async living(attempts, bounds) {
      if (attempts.length === 0) return attempts
      const { holders } = await box.trying(bounds, () => engine.driver.inspect(name))
      const alive = new Set(holders.filter(({ expiresIn }) => expiresIn > 0).map(({ attempt }) => attempt))
      return attempts.filter((attempt) => alive.has(attempt))
    },
  }
}
