/**
 * Every error holdfast throws on its own account. Bad arguments are TypeError or RangeError; an aborted wait rethrows
 * `signal.reason`. `code` is stable; `instanceof` also works between two copies of the package.
 */
import type { Blocked, Holder } from './driver.js'
import { quote } from './name.js'

const brand = Symbol.for('holdfast.error')

export type ErrorCode =
  | 'ACQUIRE_TIMEOUT'
  | 'LEASE_LOST'
  | 'STALE_TOKEN'
  | 'DEADLOCK'
  | 'UNSUPPORTED'
  | 'VERSION_CONFLICT'
  | 'BACKEND'
  | 'CLOSED'

/** The base of every error below; not thrown itself. */
export abstract class HoldfastError extends Error {
  abstract readonly code: ErrorCode
  /** The codes by which an instance of this class is recognised; undefined: any. */
  protected static readonly codes: readonly ErrorCode[] | undefined = undefined

  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    Object.defineProperty(this, brand, { value: true })
  }

  /** Matches by code, so that an error from a second copy of holdfast in node_modules is still recognised. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (typeof value !== 'object' || value === null || !(brand in value)) return false
    // biome-ignore lint/complexity/noThisInStatic: the subclass that instanceof was asked about, which has codes of its own
    const { codes } = this
    return codes === undefined || codes.includes((value as { code?: unknown }).code as ErrorCode)
  }
}

/** The lock was not free within `wait`. */
export class AcquireTimeoutError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['ACQUIRE_TIMEOUT']
  override readonly name = 'AcquireTimeoutError'
  readonly code = 'ACQUIRE_TIMEOUT'
  readonly lock: string
  /** Milliseconds waited. */
  readonly waited: number
  /** Who held it when last heard; undefined when the store did not say. */
  readonly holder: Holder | undefined
  /** Place in line when last heard, 1 = next. */
  readonly position: number | undefined
  /** @param what did not come about */
  constructor(
    lock: string,
    waited: number,
    blocked: Blocked | undefined,
    what: string = `lock ${quote(lock)} was not free`,
  ) {
    const cause = blocked?.trouble
    const trouble = cause === undefined ? '' : `; the store was in trouble: ${cause.message}`
    super(
      `${what} within ${Math.round(waited)} ms${heldBy(blocked)}${trouble}`,
      cause === undefined ? undefined : { cause },
    )
    this.lock = lock
    this.waited = waited
    this.holder = blocked?.holder
    this.position = blocked?.position
  }
}

/** Why a lease ended without release. */
export type LossCause =
  /** Not proven in time: renewals failed, the event loop stood still, or the machine slept. */
  | 'expired'
  /** The store said it belongs to somebody else or to nobody. */
  | 'taken'
  /** The store gave notice: session expired, connection ended, an operator released it. */
  | 'revoked'
  /** It was held longer than `maxHold`. */
  | 'max-hold'

const lossWords: Record<LossCause, string> = {
  expired: 'could not be proven in time',
  taken: 'is no longer ours in the store',
  revoked: 'was ended by the store',
  'max-hold': 'was held longer than maxHold',
}

/** The lease ended without release: somebody else may hold the lock now. */
export class LeaseLostError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['LEASE_LOST']
  override readonly name = 'LeaseLostError'
  readonly code = 'LEASE_LOST'
  readonly lock: string
  readonly token: number
  readonly why: LossCause
  /** Only from `run()`: what the function returned, although the lease was lost before it ended. */
  result?: unknown
  constructor(lock: string, token: number, why: LossCause, cause?: unknown, what: string = lossWords[why]) {
    super(
      `lease of ${quote(lock)} (token ${token}) ${what}; stop, and let the resource refuse tokens older than the newest it saw`,
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
  readonly lock: string
  readonly token: number
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

/** Optimistic locking gave up: at every attempt somebody else had written first. */
export class VersionConflictError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['VERSION_CONFLICT']
  override readonly name = 'VersionConflictError'
  readonly code = 'VERSION_CONFLICT'
  readonly attempts: number
  constructor(what: string, attempts: number) {
    super(
      `${quote(what)} was written by somebody else at each of ${attempts} attempts; try again later, or take a lock where so many write`,
    )
    this.attempts = attempts
  }
}

/** Waiting would never end: the caller itself holds what it waits for, or a ring of waiters leads back to it. */
export class DeadlockError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['DEADLOCK']
  override readonly name = 'DeadlockError'
  readonly code = 'DEADLOCK'
  readonly lock: string
  /** The names on the ring: this one waits for the first, and holds the last. Empty when it waits for itself. */
  readonly ring: readonly string[]
  constructor(lock: string, detail: string, ring: readonly string[] = []) {
    super(`waiting for ${quote(lock)} would never end: ${detail}`)
    this.lock = lock
    this.ring = ring
  }
}

/** The driver cannot do what was asked; thrown when the lock is made. */
export class UnsupportedError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['UNSUPPORTED']
  override readonly name = 'UnsupportedError'
  readonly code = 'UNSUPPORTED'
  readonly driver: string
  constructor(driver: string, ability: string, remedy: string) {
    super(`driver ${driver} has no ${ability}; ${remedy}`)
    this.driver = driver
  }
}

/** The store cannot be used: unreachable, refusing, answering nonsense. Says nothing about who holds the lock. */
export class BackendError extends HoldfastError {
  protected static override readonly codes: readonly ErrorCode[] = ['BACKEND', 'CLOSED']
  override readonly name = 'BackendError'
  readonly code: 'BACKEND' | 'CLOSED'
  readonly driver: string
  constructor(
    driver: string,
    message: string,
    options?: { readonly cause?: unknown; readonly closed?: boolean },
  ) {
    super(`${driver}: ${message}`, options?.cause === undefined ? undefined : { cause: options.cause })
    this.driver = driver
    this.code = options?.closed === true ? 'CLOSED' : 'BACKEND'
  }
}

/** Two users of one semaphore name must agree on its limit. Thrown by drivers, which alone see the other user. */
export function permitLimitError(name: string, theirs: number, ours: number): RangeError {
  return new RangeError(
    `semaphore ${quote(name)} has ${theirs} permits for those who use it now, got permits: ${ours}; use one limit everywhere or another name`,
  )
}

function heldBy(blocked: Blocked | undefined): string {
  const holder = blocked?.holder
  const place = blocked?.position === undefined ? '' : `; place ${blocked.position} in line`
  if (holder === undefined) return place
  const note = holder.note === undefined ? '' : ` (${quote(holder.note)})`
  return `; held by ${holder.by ?? 'somebody'}${note} for ${Math.round(holder.heldFor)} ms, token ${holder.token}${place}`
}
