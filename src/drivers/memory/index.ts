/**
 * Locks between the tasks of one process.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { memory } from 'holdfast/memory'
 *
 * const locks = createLocks(memory())
 * await locks.mutex('report').run(async () => {})
 * ```
 * @module
 */
export { type MemoryTraits, memory } from './driver.js'
