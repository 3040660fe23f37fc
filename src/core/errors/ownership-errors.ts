/** Somebody else holds the lock by now, or has written: what the caller is about to write would be wrong. */
import { quote } from '../name.js'
import { type ErrorCode, HoldfastError } from './holdfast-error.js'

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
