/**
 * Locks in Consul: one transaction takes a place in line and reads it, one takes the lock, one gives both back; who waits asks for
 * news of the one place before its own.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { consul } from 'holdfast/consul'
 *
 * const locks = createLocks(consul({ url: 'http://127.0.0.1:8500' }))
 * await locks.mutex('account:42').run(async (lease) => console.log(lease.token))
 * ```
 * @module
 */
export type { Guarded } from '../kit/guarded.js'
export type { TlsOptions } from '../kit/http.js'
export { type ConsulFactory, type ConsulTraits, consul } from './driver.js'
export type { GuardedSaid } from './guard.js'
export type { ConsulOptions } from './options.js'
export type { KeyValue, Operation } from './wire.js'
