/**
 * A scheduled job that many hosts start and one should run: not a lock to wait for, but "skip it if somebody runs it,
 * or has just run it". ShedLock made these rules known.
 *
 * `minHold` is for hosts whose clocks differ: a job done in 5 ms must not run again on the host that starts it a
 * second later. It is kept as a cell with an end, by the store's clock, so the process may end at once; without cells
 * the process keeps the lock, for as long as it lives. `maxHold` is a deadline for the run, not for a crash: that is
 * the `ttl`.
 */
import { EngineLock } from '../core/acquire.js'
import { CellRef } from '../core/cell-ref.js'
import { type Duration, duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { LeaseLostError } from '../core/errors.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { exclusive } from '../core/mode.js'
import { checkName, describe } from '../core/name.js'
import { type AcquireOptions, checkOptions } from '../core/options.js'
import { runInside } from '../core/reentrancy.js'
import { readOnce } from '../core/with-deadline.js'
import { noPermits } from './no-permits.js'
import { whileHeld } from './while-held.js'

export interface JobOptions extends Pick<AcquireOptions, 'ttl' | 'note'> {
  /** No other run begins within this many ms of the beginning of this one, however short it was, even if it failed. @default 0 */
  readonly minHold?: Duration
  /** Longest time for a run, in ms: after that its lease is lost with `why: 'max-hold'`, and others may run. @default Infinity */
  readonly maxHold?: Duration
}

/** The outcome: `held`, somebody runs it now; `too-soon`, somebody ran it less than `minHold` ago. */
export type JobRun<R> =
  | { readonly ran: true; readonly result: R }
  | { readonly ran: false; readonly why: 'held' | 'too-soon' }

export interface Job {
  readonly name: string
  /**
   * Runs `fn`, unless it runs elsewhere or has just run. Does not wait.
   * @throws what `fn` threw; LeaseLostError with `result` when the lease was lost before `fn` ended, without `result`
   * when it was lost before `fn` was called; BackendError
   */
  run<R>(fn: (lease: Lease) => R | PromiseLike<R>): Promise<JobRun<R>>
}

export function job(engine: Engine, name: string, options: JobOptions = {}): Job {
  checkName(name)
  checkOptions(options, ['minHold', 'maxHold'])
  const { minHold: least = 0, maxHold: most = Number.POSITIVE_INFINITY, ...terms } = options
  const minHold = duration('minHold', least, 0, false)
  const maxHold = duration('maxHold', most, 1, true)
  if (minHold > maxHold)
    throw new RangeError(`minHold (${minHold} ms) must not be longer than maxHold (${maxHold} ms)`)
  const lock = new EngineLock(engine, name, 'exclusive', noPermits('a job', exclusive))
  const cell = engine.driver.cells === undefined ? undefined : new CellRef(engine, 'job', name)

  async function run<R>(fn: (lease: Lease) => R | PromiseLike<R>): Promise<JobRun<R>> {
    if (typeof fn !== 'function') throw new TypeError(`a job runs a function, got ${describe(fn)}`)
    const from = engine.clock.now()
    const lease = await lock.tryAcquire({ ...terms, maxHold, linger: 0 })
    if (lease === undefined) return { ran: false, why: 'held' }
    let began: boolean
    try {
      began = cell === undefined || (await begin(cell, lease, minHold))
      // The store may have been slow to reply.
      if (began) lease.assertHeld()
    } catch (error) {
      await lease.release()
      throw error
    }
    if (!began) {
      await lease.release()
      return { ran: false, why: 'too-soon' }
    }
    let result: R
    try {
      result = await runInside(lease, () => fn(lease))
    } catch (error) {
      await leave(lease, from)
      throw error
    }
    await leave(lease, from)
    if (lease.state !== 'lost') return { ran: true, result }
    const lost = lease.hold.lost ?? new LeaseLostError(name, lease.token, 'taken')
    lost.result = result
    throw lost
  }

  /** Without cells the rest of `minHold` is held by this process. */
  async function leave(lease: HeldLease, from: number): Promise<void> {
    const until = from + minHold
    if (cell === undefined && engine.clock.now() < until && lease.isHeld && !engine.closed)
      engine.schedule(until, () => void lease.release())
    else await lease.release()
  }

  return { name, run }
}

/** Records that a run has begun; false: another run began too recently. */
async function begin(cell: CellRef, lease: HeldLease, minHold: number): Promise<boolean> {
  const { engine } = cell
  if (minHold === 0)
    return readOnce(engine, lease.name, async (bounds) => (await cell.read(bounds)) === undefined)
  const mine = String(lease.token)
  const done = await whileHeld(engine, lease, (bounds) =>
    cell.update((cell) => (cell === undefined ? { value: mine, keep: minHold } : undefined), bounds),
  )
  return done?.value === mine
}
