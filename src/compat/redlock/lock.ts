/** What `acquire` resolves with, in the shape of the `redlock` package. */
import { type Callback, callBack } from './arguments.js'
import type { ExecutionResult, ExecutionStats } from './errors.js'
import type { Redlock } from './redlock.js'

export class Lock {
  readonly redlock: Redlock
  readonly resources: readonly string[]
  /** The fencing tokens of the lease, one for each resource: in the package it is a random text. Only compare it. */
  readonly value: string
  readonly attempts: readonly Promise<ExecutionStats>[]
  /** Milliseconds since 1970 by this machine's clock, as the package has it; 0 once released or extended. */
  expiration: number

  constructor(
    redlock: Redlock,
    resources: readonly string[],
    value: string,
    attempts: readonly Promise<ExecutionStats>[],
    expiration: number,
  ) {
    this.redlock = redlock
    this.resources = resources
    this.value = value
    this.attempts = attempts
    this.expiration = expiration
  }

  /** @throws ExecutionError when the lock was no longer held, or the servers did not answer */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this)
  }

  /**
   * @param duration milliseconds from now on
   * @param done called as in version 4, beside the promise
   * @returns a new lock; this one is over, as in the package
   * @throws ExecutionError when the lock is no longer held, or the servers did not answer
   */
  extend(duration: number, done?: Callback<Lock>): Promise<Lock> {
    return callBack(this.redlock.extend(this, duration), done)
  }

  /** The name in version 4. */
  get resource(): readonly string[] {
    return this.resources
  }

  /** The name in version 4, with a promise or a callback. */
  unlock(done?: Callback<ExecutionResult>): Promise<ExecutionResult> {
    return callBack(this.release(), done)
  }
}
