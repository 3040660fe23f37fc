/** The driver. `transactions.ts` has the store's transactions, `kit/sessions/order.ts` decides, and `waiter.ts` and `hold.ts` send the requests. */
import type { DriverFactory, Traits } from '../../core/driver.js'
import { LeaseIndex, type LeaseKey } from '../kit/lease-index.js'
import { sessionFactory, sessionTraits } from '../kit/sessions/driver.js'
import { BatchClaim, maxBatch } from './acquire-many.js'
import type { Operation } from './api-types.js'
import { createCells } from './cells.js'
import { toFailure } from './failure.js'
import { findCondition, type GuardTxnResult, guardTxn } from './guard.js'
import { forceRelease, inspect, list } from './inspect.js'
import { type ConsulOptions, maxTtl, parseOptions } from './options.js'
import { type LeaseCondition, Runtime } from './runtime.js'
import { Waiter } from './waiter.js'

export interface ConsulTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly acquireMany: true
}

/** The result of `consul()`: pass it to `createLocks`, and use it for writes that a lease protects. */
export interface ConsulFactory extends DriverFactory<ConsulTraits> {
  /**
   * The first operation for your own transaction, sent with any client. It fails once the lease is no longer held. Get it anew for each
   * transaction, because it changes when a lease is moved to a longer ttl.
   * @throws StaleTokenError when no lease of this driver has that name and token (any more)
   */
  guard(lease: LeaseKey): Operation
  /**
   * Runs your own operations, at most 63, in one transaction, only while the lease is held. Values are in base64. A transaction
   * without an answer is retried: it must be safe to run twice.
   * @throws StaleTokenError when the lease is not held: nothing was written; BackendError when the store gave no answer
   */
  guardTxn(lease: LeaseKey, operations: readonly Operation[]): Promise<GuardTxnResult>
}

/**
 * Locks in Consul, over the HTTP API of an agent.
 * @throws TypeError, RangeError for invalid options, before any I/O
 */
export function consul(options: ConsulOptions): ConsulFactory {
  const settings = parseOptions(options)
  const held = new LeaseIndex<LeaseCondition>()
  const traits: ConsulTraits = Object.freeze({
    ...sessionTraits,
    minTtl: settings.minTtl,
    // The ttl of a session, including the extra tenth, is at most a day.
    maxLockDelay: maxTtl / 2,
    acquireMany: true,
    maxBatch,
  })
  const { factory, current } = sessionFactory((env) => {
    const pool = new Runtime(settings, env, held)
    return {
      name: 'consul',
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
    guard: (lease: LeaseKey) => findCondition(held, lease),
    guardTxn: async (lease: LeaseKey, operations: readonly Operation[]) =>
      guardTxn(current('consul'), lease, operations),
  })
}
