/** What the guards over HTTP answer in a handler's place. The texts are for outsiders: no host, process or note of anybody. */
import {
  AcquireTimeoutError,
  BackendError,
  PoolClosedError,
  StaleTokenError,
  TooManyWaitersError,
} from '../core/errors.js'

export interface Rejection {
  readonly status: 400 | 408 | 409 | 412 | 413 | 428 | 503
  /** Seconds after which the same request may succeed. Undefined where it would do no better, or must not be sent again unseen. */
  readonly retryAfter?: number
  readonly body: { readonly error: string; readonly message: string; readonly newest?: number }
}

const reject = (
  status: Rejection['status'],
  error: string,
  message: string,
  retryAfter?: number,
): Rejection => ({
  status,
  ...(retryAfter !== undefined && { retryAfter }),
  body: { error, message },
})

/** Seconds: a lock is soon free; a store needs time to fail over. */
const soon = 1
const later = 5

export const rejections: {
  readonly bad: (message: string) => Rejection
  readonly badPath: () => Rejection
  readonly wrong: (name: string) => Rejection
  readonly missing: (header: string) => Rejection
  readonly tooLong: (most: number) => Rejection
  readonly slow: () => Rejection
  readonly busy: () => Rejection
  readonly late: () => Rejection
  readonly outage: () => Rejection
  readonly unknown: () => Rejection
} = {
  bad: (message: string) => reject(400, 'BAD_FENCE', message),
  badPath: () => reject(400, 'BAD_PATH', 'the path of this request is not percent-encoded UTF-8'),
  wrong: (name: string) =>
    reject(400, 'WRONG_LOCK', `this resource is protected by the lock ${JSON.stringify(name)}`),
  missing: (header: string) => reject(428, 'FENCE_REQUIRED', `send the header ${header}`),
  tooLong: (most: number) => reject(413, 'BODY_TOO_LONG', `at most ${most} bytes are accepted here`),
  slow: () => reject(408, 'BODY_TOO_SLOW', 'the body did not arrive in time'),
  busy: () => reject(409, 'BUSY', 'an earlier request under this lock is still running; try again', soon),
  late: () => reject(503, 'TOO_SLOW', 'this request took too long; its effects so far remain'),
  outage: () => reject(503, 'STORE_UNAVAILABLE', 'the store cannot be reached now; try again', later),
  unknown: () =>
    reject(503, 'OUTCOME_UNKNOWN', 'it is unknown whether this was done; look before you try again'),
}

/**
 * The answer to an error of a handler: 412 to a stale token, 409 to a lock that was not free, 503 to a store that did
 * not reply, to a closed pool and to too many waiters; `undefined` for every other error.
 */
export function toRejection(error: unknown): Rejection | undefined {
  if (error instanceof StaleTokenError) {
    const { code, lock, token, newest } = error
    const message = `the token ${token} of ${JSON.stringify(lock)} is stale: a newer one has been here`
    return { status: 412, body: { error: code, message, ...(newest !== undefined && { newest }) } }
  }
  if (error instanceof AcquireTimeoutError && !(error.cause instanceof BackendError))
    return reject(
      409,
      error.code,
      `the lock ${JSON.stringify(error.lock)} was not free in time; try again`,
      soon,
    )
  if (error instanceof TooManyWaitersError)
    return reject(
      503,
      error.code,
      `too many callers wait for the lock ${JSON.stringify(error.lock)}; try again later`,
      later,
    )
  if (error instanceof PoolClosedError)
    return reject(503, error.code, `the pool ${JSON.stringify(error.lock)} is closed; try again later`, later)
  if (error instanceof BackendError && error.outcome === 'unknown') return rejections.unknown()
  if (error instanceof AcquireTimeoutError || error instanceof BackendError) return rejections.outage()
  return undefined
}
