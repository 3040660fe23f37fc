/**
 * Locks between the processes of one machine: the embedded default, which needs no server.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { local } from 'holdfast/local'
 *
 * const locks = createLocks(local())
 * await locks.mutex('report').run(async () => {})
 * ```
 * @module
 */
export { type LocalOptions, type LocalTraits, local } from './driver.js'
