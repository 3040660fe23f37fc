import type { Mode } from '../core/mode.js'
import { describe } from '../core/name.js'
import type { Terms } from '../core/options.js'

/** The fixed mode of a lock without permits. Requesting some is a mistake, not something to ignore. */
export function noPermits(what: string, mode: Mode): (terms: Terms) => Mode {
  return ({ permits }) => {
    if (permits === undefined) return mode
    throw new TypeError(
      `${what} has no permits, got permits: ${describe(permits)}; use locks.semaphore(name, { permits })`,
    )
  }
}
