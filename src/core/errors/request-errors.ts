/** Requests that a driver does not carry out, whatever the state of its store. */
import { quote } from '../name.js'
import { type ErrorCode, HoldfastError } from './holdfast-error.js'

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

/** All users of one semaphore name must agree on its limit. Thrown by drivers: only they see the other user. */
export function permitLimitError(name: string, theirs: number, ours: number): RangeError {
  return new RangeError(
    `semaphore ${quote(name)} has ${theirs} permits for its current users, got permits: ${ours}; use the same number everywhere, or another name`,
  )
}
