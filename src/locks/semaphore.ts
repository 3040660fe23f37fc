import { EngineLock, type Lock } from '../core/acquire.js'
import type { Engine } from '../core/engine.js'
import { permitLimitError } from '../core/errors.js'
import { permits as permitsMode } from '../core/mode.js'
import { checkName, describe, quote } from '../core/name.js'
import { checkPermitsOptions, type Defaults, type Terms } from '../core/options.js'

/** Options left out come from `createLocks`. */
export interface SemaphoreOptions extends Defaults {
  /** How many permits there are; every user of the name must give the same number. From 1 to 1,000,000. */
  readonly permits: number
}

const maxPermits = 1_000_000

/**
 * At most `permits` holders, or fewer that take more than one each (`acquire({ permits: 3 })`). Small requests do not
 * overtake a large one at the head of the queue, so it is not starved.
 * @throws RangeError when the limit is no integer in range, or differs from the one the store last accepted from this
 * process.
 */
export function semaphore(engine: Engine, name: string, options: SemaphoreOptions): Lock {
  checkName(name)
  checkPermitsOptions('semaphore()', options)
  const { permits, ...defaults } = options
  const of = count(`permits of semaphore ${quote(name)}`, permits, maxPermits)
  const toMode = (terms: Terms) =>
    permitsMode(count(`permits asked of semaphore ${quote(name)}`, terms.permits ?? 1, of), of)
  const lock = new EngineLock(
    engine,
    name,
    'permits',
    toMode,
    engine.resolveDefaults('semaphore()', defaults),
  )
  const theirs = engine.limits.get(name)
  if (theirs !== undefined && theirs !== of) throw permitLimitError(name, theirs, of)
  return lock
}

function count(what: string, value: unknown, most: number): number {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < 1 || value > most) {
    throw new RangeError(`${what} must be an integer from 1 to ${most}, got ${value}`)
  }
  return value
}
