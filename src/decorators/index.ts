/**
 * Methods that run under a lock. For decorators as standardised and as in `experimentalDecorators`.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { locked } from 'holdfast/decorators'
 * import { local } from 'holdfast/local'
 *
 * const locks = createLocks(local())
 * class Accounts {
 *   @locked(locks, (id: number) => `account:${id}`)
 *   async redeem(id: number, points: number): Promise<number> {
 *     return id + points
 *   }
 * }
 * console.log(await new Accounts().redeem(42, 50))
 * ```
 * @module
 */
export {
  type LockedDecorator,
  type LockedMethod,
  type LockedOptions,
  type LockName,
  locked,
  type Mutexes,
  type SkippingDecorator,
} from './locked.js'
export { currentLease, runLocked } from './run.js'
