/**
 * Every error that holdfast itself throws. Bad arguments are TypeError or RangeError; an aborted wait rethrows
 * `signal.reason`. `code` is stable; `instanceof` also works between two copies of the package.
 */
export { BackendError, outcomeUnknown, unavailable } from './errors/backend-error.js'
export { type ErrorCode, HoldfastError } from './errors/holdfast-error.js'
export {
  LeaseLostError,
  type LossCause,
  StaleTokenError,
  VersionConflictError,
} from './errors/ownership-errors.js'
export { permitLimitError, UnsupportedError } from './errors/request-errors.js'
export {
  AcquireTimeoutError,
  DeadlockError,
  LatchGoneError,
  PoolClosedError,
  TooManyWaitersError,
} from './errors/wait-errors.js'
