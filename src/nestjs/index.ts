/**
 * Locks for NestJS: a module that makes and closes them, and a decorator for methods.
 *
 * ```ts
 * import { Locks } from 'holdfast'
 * import { local } from 'holdfast/local'
 * import { HoldfastModule, LOCKS, UseLock } from 'holdfast/nestjs'
 *
 * export const imports = [HoldfastModule.forRoot({ driver: local() })]
 *
 * export class Accounts {
 *   @UseLock((id: number) => `account:${id}`)
 *   async redeem(id: number, points: number): Promise<number> {
 *     return id + points
 *   }
 * }
 * console.log(LOCKS)
 * export type Injected = Locks // constructor(@Inject(LOCKS) private readonly locks: Locks)
 * ```
 * @module
 */
export { type HealthIndicatorResult, locksIndicator } from './indicator.js'
export {
  HoldfastModule,
  type HoldfastModuleOptions,
  LOCKS,
  type NestModule,
  type NestProvider,
} from './module.js'
export { UseLock } from './use-lock.js'
