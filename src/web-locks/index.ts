/**
 * The web platform's own lock API over any driver: code written for `navigator.locks` spans processes and machines.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { local } from 'holdfast/local'
 * import { lockManager } from 'holdfast/web-locks'
 *
 * const locks = lockManager(createLocks(local()))
 * await locks.request('report', async (lock) => console.log(lock.name, lock.mode))
 * ```
 * @module
 */
export { lockManager } from './manager.js'
export type {
  GrantedLock,
  LockGrantedCallback,
  LockInfo,
  LockManager,
  LockManagerOptions,
  LockManagerSnapshot,
  LockMode,
  LockOptions,
  LocksOfAnyDriver,
} from './types.js'
