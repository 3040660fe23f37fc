/**
 * Locks in Consul: one transaction enters a FIFO queue and reads it, one takes the lock, one releases both. A waiter watches only
 * the entry before its own, with a blocking query.
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

export type { TlsOptions } from '../kit/http.js'
export type { LeaseKey } from '../kit/lease-index.js'
export type { KeyValue, Operation } from './api-types.js'
export { type ConsulFactory, type ConsulTraits, consul } from './driver.js'
export type { GuardTxnResult } from './guard.js'
export type { ConsulOptions } from './options.js'
