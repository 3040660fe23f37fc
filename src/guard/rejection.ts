/** What the guards over HTTP answer in a handler's place. The texts are for outsiders: no host, process or note of anybody. */
import {
  AcquireTimeoutError,
  BackendError,
  PoolClosedError,
  StaleTokenError,
  TooManyWaitersError,
} from '../core/errors.js'

export interface Refusal {
  readonly status: 400 | 408 | 409 | 412 | 413 | 428 | 503
  readonly body: { readonly error: string; readonly message: string; readonly newest?: number }
}

const refuse = (status: Refusal['status'], error: string, message: string): Refusal => ({
  status,
  body: { error, message },
})

export const refusals: {
  readonly bad: (message: string) => Refusal
  readonly wrong: (name: string) => Refusal
  readonly missing: (header: string) => Refusal
  readonly tooLong: (most: number) => Refusal
  readonly slow: () => Refusal
  readonly busy: () => Refusal
  readonly late: () => Refusal
  readonly outage: () => Refusal
} = {
  bad: (message: string) => refuse(400, 'BAD_FENCE', message),
  wrong: (name: string) =>
    refuse(400, 'WRONG_LOCK', `this resource is protected by the lock ${JSON.stringify(name)}`),
  missing: (header: string) => refuse(428, 'FENCE_REQUIRED', `send the header ${header}`),
  tooLong: (most: number) => refuse(413, 'BODY_TOO_LONG', `at most ${most} bytes are taken here`),
  slow: () => refuse(408, 'BODY_TOO_SLOW', 'the body did not come in time'),
  busy: () => refuse(409, 'BUSY', 'an earlier request under this lock is still at work; try again'),
  late: () => refuse(503, 'TOO_SLOW', 'this request took too long; what it did so far stands'),
  outage: () => refuse(503, 'STORE_UNAVAILABLE', 'the store cannot be asked now; try again'),
}

/**
 * The answer to an error of a handler: 412 to a stale token, 409 to a lock that was not free, 503 to a store that did
 * not reply, to a closed pool and to too many waiters; `undefined` for every other error.
 */
export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof StaleTokenError) {
    const { code, lock, token, newest } = error
    const message = `the token ${token} of ${JSON.stringify(lock)} is stale: a newer one has been here`
    return { status: 412, body: { error: code, message, ...(newest !== undefined && { newest }) } }
  }
  if (error instanceof AcquireTimeoutError && !(error.cause instanceof BackendError))
    return refuse(409, error.code, `the lock ${JSON.stringify(error.lock)} was not free in time; try again`)
  if (error instanceof TooManyWaitersError)
    return refuse(
      503,
      error.code,
      `too many wait for the lock ${JSON.stringify(error.lock)}; try again later`,
    )
  if (error instanceof PoolClosedError)
    return refuse(503, error.code, `the pool ${JSON.stringify(error.lock)} is closed; try again later`)
  if (error instanceof AcquireTimeoutError || error instanceof BackendError) return refusals.outage()
  return undefined
}
