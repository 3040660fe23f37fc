// What a simulation needs from inside: locks whose time and chance it owns, and the state machine that stores are twins of.
import type { Env } from '../../src/core/driver.js'
import { Engine } from '../../src/core/engine.js'
import type { Defaults } from '../../src/core/options.js'
import { type Ability, type Locks, locksOver } from '../../src/create-locks.js'
import type { DriverFactory } from '../../src/index.js'

export { deadline } from '../../src/core/clock.js'
export type { Clock, Env } from '../../src/drivers/kit/index.js'
export * as table from '../../src/drivers/memory/table.js'

/** `createLocks` with a clock and dice of one's own. */
export function createLocksIn(env: Env, driver: DriverFactory, defaults?: Defaults): Locks<Ability> {
  return locksOver<Ability>(new Engine(driver, defaults, env))
}
