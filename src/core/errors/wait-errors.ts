/** A wait that ended without the lock, the permits or the latch that was waited for. */
import type { Holder, WaitStatus } from '../driver.js'
import { printable, quote } from '../name.js'
import { type ErrorCode, HoldfastError } from './holdfast-error.js'

/**
 * The lock was not free within `wait`: the store reported within that time that somebody else holds it, and still replied at the end. One
 * that died meanwhile is a {@link BackendError} with code `UNAVAILABLE`, at most two seconds later.
 */
export class AcquireTimeoutError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['ACQUIRE_TIMEOUT']
  override readonly name = 'AcquireTimeoutError'
  readonly code = 'ACQUIRE_TIMEOUT'
  /** The name of the lock. */
  readonly lock: string
  /** Milliseconds waited. */
  readonly waited: number
  /**
   * Who held the lock at the end of the wait, as far as the store reported, with ages as of then; undefined when it
   * did not report.
   */
  readonly holder: Holder | undefined
  /** Last reported position in the queue, 1 = next. */
  readonly position: number | undefined
  readonly #what: string
  /** @param what did not happen */
  constructor(
    lock: string,
    waited: number,
    blocked: WaitStatus | undefined,
    what: string = `lock ${quote(lock)} was not free`,
  ) {
    const cause = blocked?.error
    const suffix = cause === undefined ? '' : `; the store was in trouble: ${cause.message}`
    super(
      `${what} within ${Math.round(waited)} ms${heldBy(blocked)}${suffix}`,
      cause === undefined ? undefined : { cause },
    )
    this.lock = lock
    this.waited = waited
    this.holder = blocked?.holder
    this.position = blocked?.position
    this.#what = what
  }

  override get publicMessage(): string {
    return `${this.#what} within ${Math.round(this.waited)} ms`
  }
}

/** This process already has as many waiters for the lock as `maxPending` allows. Nothing was sent to the store. */
export class TooManyWaitersError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['TOO_MANY_WAITERS']
  override readonly name = 'TooManyWaitersError'
  readonly code = 'TOO_MANY_WAITERS'
  /** The name of the lock. */
  readonly lock: string
  /** The bound that was reached. */
  readonly maxPending: number
  constructor(lock: string, maxPending: number) {
    super(
      `${maxPending} or more callers in this process wait for ${quote(lock)}, and maxPending is ${maxPending}; try again later, or raise maxPending`,
    )
    this.lock = lock
    this.maxPending = maxPending
  }

  override get publicMessage(): string {
    return `too many callers wait for ${quote(this.lock)}; try again later`
  }
}

/**
 * The latch is no longer in the store: it was deleted, or it opened and its `keep` ran out before this process looked
 * again. Whatever it stood for may be done or not.
 */
export class LatchGoneError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['LATCH_GONE']
  override readonly name = 'LatchGoneError'
  readonly code = 'LATCH_GONE'
  /** The name of the lock. */
  readonly lock: string
  constructor(lock: string) {
    super(
      `latch ${quote(lock)} is gone: it was deleted, or it opened and its keep ran out before this process looked again`,
    )
    this.lock = lock
  }
}

/** This process or another closed the pool: it grants no permits until somebody reopens it. */
export class PoolClosedError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['POOL_CLOSED']
  override readonly name = 'PoolClosedError'
  readonly code = 'POOL_CLOSED'
  /** The name of the lock. */
  readonly lock: string
  constructor(lock: string) {
    super(`pool ${quote(lock)} is closed; open() opens it again`)
    this.lock = lock
  }

  override get publicMessage(): string {
    return `pool ${quote(this.lock)} is closed`
  }
}

/** The wait would never end: the caller itself holds what it waits for, or a ring of waiters leads back to it. */
export class DeadlockError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['DEADLOCK']
  override readonly name = 'DeadlockError'
  readonly code = 'DEADLOCK'
  /** The name of the lock. */
  readonly lock: string
  /** The names on the ring: the caller waits for the first and holds the last. Empty when it waits for itself. */
  readonly cycle: readonly string[]
  constructor(lock: string, detail: string, cycle: readonly string[] = []) {
    super(`waiting for ${quote(lock)} would never end: ${detail}`)
    this.lock = lock
    this.cycle = cycle
  }

  override get publicMessage(): string {
    return `waiting for ${quote(this.lock)} would never end`
  }
}

function heldBy(blocked: WaitStatus | undefined): string {
  const holder = blocked?.holder
  const position = blocked?.position === undefined ? '' : `; position ${blocked.position} in the queue`
  if (holder === undefined) return position
  const note = holder.note === undefined ? '' : ` (${quote(holder.note)})`
  return `; held by ${printable(holder.client ?? 'somebody')}${note} for ${Math.round(holder.heldFor)} ms, token ${holder.token}${position}`
}
