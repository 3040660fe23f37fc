/** The store cannot be used, and how to say so. What a network failure says is in `system-reason.ts`. */
import { quote } from '../name.js'
import { systemReason } from '../system-reason.js'
import { type ErrorCode, HoldfastError } from './holdfast-error.js'

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
