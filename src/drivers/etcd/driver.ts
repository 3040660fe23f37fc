/** The driver: `txns.ts` says what the store does, `line.ts` decides, `waiter.ts` and `hold.ts` ask, this hands out. */
import type { DriverFactory, Traits } from '../../core/driver.js'
import { type Guarded, Held } from '../kit/guarded.js'
import { sessionFactory, sessionTraits } from '../kit/session-driver.js'
import { cellsOf } from './cells.js'
import { Desk } from './desk.js'
import { compareOf, type GuardedReply, guardTxn } from './guard.js'
import { forceRelease, inspect, list } from './inspect.js'
import { type EtcdOptions, settingsOf } from './options.js'
import { mostTogether, Together } from './together.js'
import { troubleOf } from './trouble.js'
import { Waiter } from './waiter.js'
import type { Compare, TxnAsk } from './wire.js'

export interface EtcdTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly together: true
}

const traits: EtcdTraits = Object.freeze({
  ...sessionTraits,
  // Leases count in whole seconds.
  minTtl: 1_000,
  maxLockDelay: Number.POSITIVE_INFINITY,
  together: true,
  mostTogether,
})

/** What `etcd()` gives: for `createLocks`, and for writing under the protection of a lease. */
export interface EtcdFactory extends DriverFactory<EtcdTraits> {
  /**
   * The comparison "this lease's place is still there", for a transaction of your own with any client: keys in base64, numbers
   * as strings, as etcd's JSON gateway takes them.
   * @throws StaleTokenError when no lease of this driver has that name and token (any more)
   */
  guard(lease: Guarded): Compare
  /**
   * A transaction of your own that is carried out only while the lease's place is there. Keys and values are in base64. Without an
   * answer it is sent again: make it one that may run twice.
   * @throws StaleTokenError when it is not: nothing was written; BackendError when the store gave no answer
   */
  guardTxn(lease: Guarded, txn: TxnAsk): Promise<GuardedReply>
}

/**
 * Locks in etcd 3.4 or newer, over the JSON gateway that it serves beside gRPC.
 * @throws TypeError, RangeError for bad options, before any I/O
 */
export function etcd(options: EtcdOptions): EtcdFactory {
  const settings = settingsOf(options)
  const keys = new Held<string>()
  const { factory, newest } = sessionFactory((env) => {
    const desk = new Desk(settings, env, keys)
    return {
      name: 'etcd',
      traits,
      desk,
      cells: cellsOf(desk),
      troubleOf,
      waiter: (claim, wait) => new Waiter(desk, claim, wait),
      together: (claims, wait) => new Together(desk, claims, wait).take(),
      inspect: (name) => inspect(desk, name),
      list: (prefix) => list(desk, prefix),
      forceRelease: (name) => forceRelease(desk, name),
    }
  })
  return Object.assign(factory, {
    guard: (lease: Guarded) => compareOf(keys, lease),
    guardTxn: async (lease: Guarded, txn: TxnAsk) => guardTxn(newest('etcd'), keys, lease, txn),
  })
}
