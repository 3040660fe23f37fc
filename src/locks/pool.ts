/**
 * A semaphore whose number of permits can be changed while it is used, and which reports its holders.
 *
 * Limit and queue share one cell; every holder and waiter has a shared lease of the name, which proves it alive.
 * Every change of the cell removes those that have died and grants from the head of the queue for as long as requests fit, so
 * it is first come, first served, and no request overtakes a large one. After the pool was made smaller, no permit is
 * granted until enough have been released; after it was closed, none at all, and every waiter leaves the queue. A
 * plain semaphore takes one request where this one takes three or more.
 *
 * Who is granted next is decided in `pool-state.ts`; `pool-cell.ts` has the shared cell, and `pool-queue.ts` is the way
 * of one request.
 */

import { CellRef } from '../core/cell-ref.js'
import { duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError } from '../core/errors.js'
import type { Lease } from '../core/lease.js'
import { checkName, quote } from '../core/name.js'
import { checkPermitsOptions, checkSingle, type Defaults, type Terms } from '../core/options.js'
import { answered, checkWaitOptions, readOnce, restOfWait, type WaitOptions } from '../core/with-deadline.js'
import { createMembership } from './membership.js'
import { PoolCell } from './pool-cell.js'
import { type PermitHolder, readHolders } from './pool-holders.js'
import { type PoolAcquireOptions, PoolQueue } from './pool-queue.js'
import { checkPermits } from './pool-state.js'

/** Options left out come from `createLocks`. */
export interface PoolOptions extends Defaults {
  /** From 1 to 1,000,000. Used only where no number has been set before; otherwise the number in the store stands. */
  readonly permits: number
}

export interface Pool {
  readonly name: string
  /**
   * Waits for `permits` (1). `maxHold` and `autoRenew: false` apply from the moment they are granted. Tokens grow in the
   * order in which holders came, not in which they were served.
   * @throws AcquireTimeoutError; PoolClosedError; LeaseLostError when the lease of its queue entry was lost;
   * TooManyWaitersError when `maxPending` others of this process wait for permits of this pool; as `Lock.acquire`
   */
  acquire(options?: PoolAcquireOptions): Promise<Lease>
  /** One attempt: `undefined` when the permits are not free now. @throws PoolClosedError; as `Lock.tryAcquire` */
  tryAcquire(options?: Omit<PoolAcquireOptions, 'wait' | 'maxPending'>): Promise<Lease | undefined>
  /** Changes the number for everybody, at once. Holders keep what they have. @throws RangeError */
  resize(permits: number): Promise<void>
  /**
   * Closes it for everybody, in every process, until `open`: from the store's reply on nobody is granted permits,
   * waiters are rejected with `PoolClosedError`, and holders keep what they have. Resolves once all permits are back,
   * those of crashed holders when their leases have ended; false: they were not within `wait` (the default of the
   * pool), or somebody opened it meanwhile. However short `wait` is, the pool is closed then. Idempotent.
   * @throws BackendError when the store does not reply, and it may be closed or not; the reason of `signal`, which
   * does not open it again
   */
  close(options?: WaitOptions): Promise<boolean>
  /** Opens it again, for everybody. Idempotent. @throws BackendError */
  open(): Promise<void>
  /**
   * Removes what the store keeps of it: its size, and that it is closed. False, and nothing changed: somebody holds
   * permits or waits.
   * @throws BackendError
   */
  delete(): Promise<boolean>
  /** The number of permits. */
  size(): Promise<number>
  /**
   * Holders and their permits, in the order in which they came. One that came just now may be missing while others come
   * and go all the time.
   */
  holders(): Promise<readonly PermitHolder[]>
}

export function pool(engine: Engine, name: string, options: PoolOptions): Pool {
  checkName(name)
  checkPermitsOptions('pool()', options)
  const { permits, ...given } = options
  checkPermits(`permits of pool ${quote(name)}`, permits)
  const defaults = engine.resolveDefaults('pool()', given)
  const cell = createCell(engine, name, permits, defaults)
  const queue = new PoolQueue(engine, name, cell, defaults)
  return {
    name,
    async acquire(options = {}) {
      const from = engine.clock.now()
      const lease = await queue.take(options)
      if (lease !== undefined) return lease
      const what = `${options.permits ?? 1} permits of pool ${quote(name)} were not free`
      throw new AcquireTimeoutError(name, engine.clock.now() - from, undefined, what)
    },
    async tryAcquire(options = {}) {
      checkSingle(options)
      return queue.take({ ...options, wait: 0 })
    },
    async resize(permits) {
      checkPermits(`permits of pool ${quote(name)}`, permits)
      await readOnce(engine, name, (bounds) => cell.change(bounds, (state) => ({ ...state, size: permits })))
    },
    close: (options = {}) => close(engine, name, cell, defaults, options),
    async open() {
      await readOnce(engine, name, (bounds) => cell.change(bounds, ({ size, line }) => ({ size, line })))
    },
    delete: () => readOnce(engine, name, (bounds) => cell.delete(bounds)),
    size: () => readOnce(engine, name, (bounds) => cell.size(bounds)),
    holders: () => readOnce(engine, name, (bounds) => readHolders(cell, bounds)),
  }
}

function createCell(engine: Engine, name: string, permits: number, defaults: Terms): PoolCell {
  const cellRef = new CellRef(engine, 'pool', name)
  const terms = { ...defaults, maxPending: Number.POSITIVE_INFINITY }
  return new PoolCell(cellRef, createMembership(cellRef, name, 'a pool', terms), permits)
}

async function close(
  engine: Engine,
  name: string,
  cell: PoolCell,
  defaults: Terms,
  options: WaitOptions,
): Promise<boolean> {
  checkWaitOptions('close()', options)
  const from = engine.clock.now()
  const wait = duration('wait', options.wait ?? defaults.wait, 0, true)
  await readOnce(engine, name, (bounds) => cell.change(bounds, (state) => ({ ...state, closed: true })), {
    signal: options.signal,
  })
  const rest = { ...options, wait: Math.max(0, wait - (engine.clock.now() - from)) }
  const found = await answered(engine, name, rest, (bounds) => cell.untilDrained(bounds), restOfWait)
  return found === 'drained'
}
