/**
 * Every error that holdfast itself throws. Bad arguments are TypeError or RangeError; an aborted wait rethrows
 * `signal.reason`. `code` is stable; `instanceof` also works between two copies of the package.
 *
 * Long because every error is found in one place; what a network failure says is in `system-reason.ts`.
 */
import type { Holder, WaitStatus } from './driver.js'
import { printable, quote } from './name.js'
import { systemReason } from './system-reason.js'

const brand = Symbol.for('holdfast.error')

export type ErrorCode =
  | 'ACQUIRE_TIMEOUT'
  | 'TOO_MANY_WAITERS'
  | 'LATCH_GONE'
  | 'LEASE_LOST'
  | 'POOL_CLOSED'
  | 'STALE_TOKEN'
  | 'DEADLOCK'
  | 'UNSUPPORTED'
  | 'VERSION_CONFLICT'
  | 'BACKEND'
  | 'UNAVAILABLE'
  | 'CLOSED'

/** The base of every error below; not thrown itself. */
export abstract class HoldfastError extends Error {
  abstract readonly code: ErrorCode
  /** The codes that identify an instance of this class; undefined: any. */
  protected static readonly codes: readonly ErrorCode[] | undefined = undefined

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    Object.defineProperty(this, brand, { value: true })
  }

  /**
   * The message for outsiders, such as the client of an HTTP service: what failed, without hosts, process ids, notes,
   * addresses and the store's own messages, all of which `message` may contain. It contains the name of the lock.
   */
  get publicMessage(): string {
    return this.message
  }

  /** Matches by code, so that an error from a second copy of holdfast in node_modules is still recognised. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (typeof value !== 'object' || value === null || !(brand in value)) return false
    // biome-ignore lint/complexity/noThisInStatic: the subclass that instanceof was asked about, which has codes of its own
    const { codes } = this
    return codes === undefined || codes.includes((value as { code?: unknown }).code as ErrorCode)
  }
}

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

/** Why a lease ended without release. */
export type LossCause =
  /** Ownership was not proven in time: renewals failed, the event loop was blocked, or the machine slept. */
  | 'expired'
  /** The store replied that the lock belongs to somebody else or to nobody. */
  | 'taken'
  /** The store sent a notification before the lease's time was up: session expired, connection ended, an operator released it. */
  | 'revoked'
  /** The lease lasted longer than `maxHold`. */
  | 'max-hold'

const lossDescriptions: Record<LossCause, string> = {
  expired: 'expired before it could be renewed',
  taken: 'is no longer ours in the store',
  revoked: 'was ended by the store',
  'max-hold': 'was held longer than maxHold',
}

/** The lease ended without release: somebody else may hold the lock now. */
export class LeaseLostError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['LEASE_LOST']
  override readonly name = 'LeaseLostError'
  readonly code = 'LEASE_LOST'
  /** The name of the lock. */
  readonly lock: string
  /** The token of the lease. */
  readonly token: number
  /** `expired`, `taken`, `revoked` or `max-hold`. */
  readonly why: LossCause
  /** Set only by `run()`: the result of the function, although the lease was lost before the function ended. */
  result?: unknown
  constructor(
    lock: string,
    token: number,
    why: LossCause,
    cause?: unknown,
    what: string = lossDescriptions[why],
  ) {
    super(
      `lease of ${quote(lock)} (token ${token}) ${what}; stop, and reject writes with older tokens`,
      cause === undefined ? undefined : { cause },
    )
    this.lock = lock
    this.token = token
    this.why = why
  }
}

/** A guarded resource has seen a newer token. */
export class StaleTokenError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['STALE_TOKEN']
  override readonly name = 'StaleTokenError'
  readonly code = 'STALE_TOKEN'
  /** The name of the lock. */
  readonly lock: string
  /** The token that was refused. */
  readonly token: number
  /** The newest token that the resource has seen, if it says so. */
  readonly newest: number | undefined
  constructor(lock: string, token: number, newest?: number) {
    super(
      `token ${token} of ${quote(lock)} is stale${newest === undefined ? '' : `: ${newest} was seen already`}; the lease was lost, do not retry with it`,
    )
    this.lock = lock
    this.token = token
    this.newest = newest
  }
}

/** Optimistic locking gave up: somebody else had written first at every attempt. */
export class VersionConflictError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['VERSION_CONFLICT']
  override readonly name = 'VersionConflictError'
  readonly code = 'VERSION_CONFLICT'
  /** How many times it was tried. */
  readonly attempts: number
  constructor(what: string, attempts: number) {
    super(
      `${quote(what)} was changed by another writer at each of ${attempts} attempts; try again later, or use a lock if it changes that often`,
    )
    this.attempts = attempts
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

/** The driver does not support the request; thrown when the lock is made, or by the verb or option that needs the ability. */
export class UnsupportedError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['UNSUPPORTED']
  override readonly name = 'UnsupportedError'
  readonly code = 'UNSUPPORTED'
  /** The name of the driver, such as `redis`. */
  readonly driver: string
  constructor(driver: string, ability: string, remedy: string) {
    super(`driver ${driver} has no ${ability}; ${remedy}`)
    this.driver = driver
  }
}

/**
 * The store cannot be used: unreachable, refusing, or replying nonsense. The error does not say who holds the lock.
 * `UNAVAILABLE`: the store did not reply within the wait, so a later retry may help. `BACKEND`: it refused, or failed
 * in some other way given in `message`. `CLOSED`: the locks were closed.
 */
export class BackendError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['BACKEND', 'UNAVAILABLE', 'CLOSED']
  override readonly name = 'BackendError'
  readonly code: 'BACKEND' | 'UNAVAILABLE' | 'CLOSED'
  /** The name of the driver, such as `redis`. */
  readonly driver: string
  /** The system's error code, such as `ECONNREFUSED`, if known. */
  readonly reason: string | undefined
  /** `host:port`, if known. */
  readonly address: string | undefined
  /** How long the caller tried to get a reply, in ms; only with `UNAVAILABLE`. */
  readonly tried: number | undefined
  /** For drivers: the cause is silence, not a refusal. */
  readonly unanswered: boolean
  /** For drivers: the same request may succeed soon. A refusal that lasts until somebody acts ends a wait at once. @default `unanswered` */
  readonly transient: boolean
  /** The store answers, but grants nothing yet, because it may have forgotten locks. */
  readonly quarantined: boolean
  /**
   * `unknown`: a guard has sent a write and got no reply, so that it may or may not have been applied; `code` is then `UNAVAILABLE` and
   * `cause` the client's error. Undefined for every other error.
   */
  readonly outcome: 'unknown' | undefined
  constructor(
    driver: string,
    message: string,
    options: {
      readonly cause?: unknown
      readonly closed?: boolean
      readonly unanswered?: boolean
      readonly transient?: boolean
      readonly tried?: number
      readonly quarantined?: boolean
      readonly outcome?: 'unknown'
    } = {},
  ) {
    super(`${driver}: ${message}`, options.cause === undefined ? undefined : { cause: options.cause })
    const { reason, address } = systemReason(options.cause)
    this.driver = driver
    this.reason = reason
    this.address = address
    this.tried = options.tried
    this.quarantined = options.quarantined ?? false
    this.outcome = options.outcome
    this.unanswered = options.unanswered ?? (options.tried !== undefined || reason !== undefined)
    this.transient = options.transient ?? this.unanswered
    this.code = options.closed === true ? 'CLOSED' : options.tried === undefined ? 'BACKEND' : 'UNAVAILABLE'
  }

  override get publicMessage(): string {
    if (this.outcome === 'unknown') return 'it is unknown whether this was done; look before you try again'
    return this.code === 'CLOSED'
      ? 'these locks are closed'
      : 'the store of the locks cannot be used at present'
  }
}

/**
 * The error for a store that did not reply while it was tried. What it replied instead, if anything, is the cause; a
 * refusal is returned as it is.
 * @param about the name of the lock; undefined: the request was not about one lock
 */
export function unavailable(
  driver: string,
  about: string | undefined,
  tried: number,
  error: BackendError | undefined,
): BackendError {
  if (error !== undefined && !error.unanswered) return error
  // Of a shorter silence within this one, only the reason adds anything.
  const cause = error?.code === 'UNAVAILABLE' ? error.cause : error
  const { reason, address } = systemReason(cause)
  const words = [reason, address].filter((word) => word !== undefined).join(' ')
  const why = cause instanceof BackendError ? `; ${cause.message}` : ''
  return new BackendError(
    driver,
    `gave no answer${about === undefined ? '' : ` about ${quote(about)}`} within ${Math.round(tried)} ms${words === '' ? '' : ` (${words})`}${why}`,
    { tried, ...(cause !== undefined && { cause }) },
  )
}

/**
 * The error for a write that was sent and got no reply.
 * @param what the write
 * @param tried ms since it was sent
 * @param cause the client's error
 */
export function outcomeUnknown(driver: string, what: string, tried: number, cause: unknown): BackendError {
  const { reason } = systemReason(cause)
  const message = cause instanceof Error ? cause.message : String(cause)
  const why = reason === undefined || message.includes(reason) ? message : `${message}, ${reason}`
  return new BackendError(
    driver,
    `${what} may or may not have been applied: it was sent, and no reply says so (${why}); look, or repeat it if a second time does no harm`,
    { cause, tried, outcome: 'unknown' },
  )
}

/** All users of one semaphore name must agree on its limit. Thrown by drivers: only they see the other user. */
export function permitLimitError(name: string, theirs: number, ours: number): RangeError {
  return new RangeError(
    `semaphore ${quote(name)} has ${theirs} permits for its current users, got permits: ${ours}; use the same number everywhere, or another name`,
  )
}

function heldBy(blocked: WaitStatus | undefined): string {
  const holder = blocked?.holder
  const position = blocked?.position === undefined ? '' : `; position ${blocked.position} in the queue`
  if (holder === undefined) return position
  const note = holder.note === undefined ? '' : ` (${quote(holder.note)})`
  return `; held by ${printable(holder.client ?? 'somebody')}${note} for ${Math.round(holder.heldFor)} ms, token ${holder.token}${position}`
}
