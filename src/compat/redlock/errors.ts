/** The errors of the `redlock` package: code that catches them goes on working. */

/** What one operation came to, in the shape of the package. See `ExecutionError.attempts`. */
export interface ExecutionStats {
  readonly membershipSize: number
  readonly quorumSize: number
  readonly votesFor: Set<unknown>
  readonly votesAgainst: Map<unknown, Error>
}

export interface ExecutionResult {
  readonly attempts: readonly Promise<ExecutionStats>[]
}

/** Somebody else holds one of the resources. `cause` is holdfast's own error, which names the holder. */
export class ResourceLockedError extends Error {
  override readonly name = 'ResourceLockedError'
}

/**
 * The operation failed: the resource stayed locked, the lock was lost, or the servers did not answer. `cause` is
 * holdfast's own error.
 */
export class ExecutionError extends Error {
  override readonly name = 'ExecutionError'
  /**
   * One entry. The driver does not report the vote of each server, so the outcome stands for all of them: in
   * `votesAgainst` every client has the same error, a {@link ResourceLockedError} where the lock was not free.
   */
  readonly attempts: readonly Promise<ExecutionStats>[]

  constructor(message: string, attempts: readonly Promise<ExecutionStats>[], cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.attempts = attempts
  }
}
