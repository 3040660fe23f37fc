/** The driver. `transactions.ts` has the store's transactions, `queue.ts` decides, and `waiter.ts` and `hold.ts` send the requests. */
import type { DriverFactory, Traits } from '../../core/driver.js'
import { LeaseIndex, type LeaseKey } from '../kit/lease-index.js'
import { sessionFactory, sessionTraits } from '../kit/sessions/driver.js'
import { BatchClaim, maxBatch } from './acquire-many.js'
import type { Compare, TxnRequest } from './api-types.js'
import { createCells } from './cells.js'
import { toFailure } from './failure.js'
import { type GuardTxnResult, guardTxn, leaseCompare } from './guard.js'
import { forceRelease, inspect, list } from './inspect.js'
import { type EtcdOptions, parseOptions } from './options.js'
import { type GuardedEntry, Runtime } from './runtime.js'
import { Waiter } from './waiter.js'

export interface EtcdTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly acquireMany: true
}

const traits: EtcdTraits = Object.freeze({
  ...sessionTraits,
  // etcd's leases are in whole seconds.
  minTtl: 1_000,
  maxLockDelay: Number.POSITIVE_INFINITY,
  acquireMany: true,
  maxBatch,
})

/** The result of `etcd()`: pass it to `createLocks`, and use it for writes that a lease protects. */
export interface EtcdFactory extends DriverFactory<EtcdTraits> {
  /**
   * A comparison for your own transaction, sent with any client. It succeeds while this lease's queue entry exists. Keys are in base64 and
   * numbers are strings, as etcd's JSON gateway takes them. A lease whose guard was asked for goes back to the store when it is released,
   * also where others of this process wait for it.
   * @throws StaleTokenError when no lease of this driver has that name and token (any more)
   */
  guard(lease: LeaseKey): Compare
  /**
   * Runs your own transaction only while the lease's queue entry exists. Keys and values are in base64. A transaction without an
   * answer is retried: it must be safe to run twice.
   * @throws StaleTokenError when the entry does not exist: nothing was written; BackendError when the store gave no answer
   */
  guardTxn(lease: LeaseKey, txn: TxnRequest): Promise<GuardTxnResult>
}

/**
 * Locks in etcd 3.4 or newer, over the JSON gateway that it serves beside gRPC, or over gRPC.
 * @throws TypeError, RangeError for invalid options, before any I/O
 */
export function etcd(options: EtcdOptions): EtcdFactory {
  const settings = parseOptions(options)
  const held = new LeaseIndex<GuardedEntry>()
  const { factory, current } = sessionFactory((env) => {
    const pool = new Runtime(settings, env, held)
    return {
      name: 'etcd',
      traits,
      pool,
      cells: createCells(pool),
      toFailure,
      waiter: (claim, wait) => new Waiter(pool, claim, wait),
      acquireMany: (claims, wait) => new BatchClaim(pool, claims, wait).tryOnce(),
      inspect: (name) => inspect(pool, name),
      list: (prefix) => list(pool, prefix),
      forceRelease: (name) => forceRelease(pool, name),
    }
  })
  return Object.assign(factory, {
    guard: (lease: LeaseKey) => leaseCompare(held, lease),
    guardTxn: async (lease: LeaseKey, txn: TxnRequest) => guardTxn(current('etcd'), held, lease, txn),
  })
}
