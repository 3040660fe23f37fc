/** The driver: `txns.ts` says what the store does, `kit/line.ts` decides, `waiter.ts` and `hold.ts` ask, this hands out. */
import type { DriverFactory, Traits } from '../../core/driver.js'
import { type Guarded, Held } from '../kit/guarded.js'
import { sessionFactory, sessionTraits } from '../kit/session-driver.js'
import { cellsOf } from './cells.js'
import { type Conditional, Desk } from './desk.js'
import { conditionOf, type GuardedSaid, guardTxn } from './guard.js'
import { forceRelease, inspect, list } from './inspect.js'
import { type ConsulOptions, longestTtl, settingsOf } from './options.js'
import { mostTogether, Together } from './together.js'
import { troubleOf } from './trouble.js'
import { Waiter } from './waiter.js'
import type { Operation } from './wire.js'

export interface ConsulTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly together: true
}

/** What `consul()` gives: for `createLocks`, and for writing under the protection of a lease. */
export interface ConsulFactory extends DriverFactory<ConsulTraits> {
  /**
   * The operation that a transaction of your own begins with, whoever sends it: it fails once the lease is not held any more. Ask for
   * it anew each time, because it changes when a lease is moved to a longer ttl.
   * @throws StaleTokenError when no lease of this driver has that name and token (any more)
   */
  guard(lease: Guarded): Operation
  /**
   * Operations of your own, at most 63, carried out in one transaction only while the lease holds. Values are in base64. Without
   * an answer it is sent again: make it one that may run twice.
   * @throws StaleTokenError when it does not: nothing was written; BackendError when the store gave no answer
   */
  guardTxn(lease: Guarded, operations: readonly Operation[]): Promise<GuardedSaid>
}

/**
 * Locks in Consul, over the HTTP API of an agent.
 * @throws TypeError, RangeError for bad options, before any I/O
 */
export function consul(options: ConsulOptions): ConsulFactory {
  const settings = settingsOf(options)
  const held = new Held<Conditional>()
  const traits: ConsulTraits = Object.freeze({
    ...sessionTraits,
    minTtl: settings.minTtl,
    // The ttl of a session, with its tenth more, is a day at the most.
    maxLockDelay: longestTtl / 2,
    together: true,
    mostTogether,
  })
  const { factory, newest } = sessionFactory((env) => {
    const desk = new Desk(settings, env, held)
    return {
      name: 'consul',
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
    guard: (lease: Guarded) => conditionOf(held, lease),
    guardTxn: async (lease: Guarded, operations: readonly Operation[]) =>
      guardTxn(newest('consul'), lease, operations),
  })
}
