/**
 * The API of the `redlock` package, versions 4 and 5, over the drivers of holdfast: change one import.
 *
 * ```ts
 * import Redlock from 'holdfast/compat/redlock' // was: from 'redlock'
 * import { Redis } from 'ioredis'
 *
 * const redlock = new Redlock([new Redis()], { retryCount: 5 })
 * await redlock.using(['account:42'], 5_000, async (signal) => signal.throwIfAborted())
 * ```
 * @module
 */
export { ExecutionError, type ExecutionResult, type ExecutionStats, ResourceLockedError } from './errors.js'
export { Lock } from './lock.js'
export { Redlock as default, Redlock, type RedlockAbortSignal } from './redlock.js'
export type { Settings } from './settings.js'
