/** Classifies the errors of a store over HTTP: what is wrong, and whether a retry can help. */
import { BackendError } from '../../core/errors.js'
import { NoResponseError } from './http.js'

/** A definite answer, but not one the request asked for. */
export abstract class ServerRefusal extends Error {
  /** A later try, or another member, may give another answer. */
  abstract readonly transient: boolean
  /** The session has ended, and with it everything it kept. */
  abstract readonly noSession: boolean
  /** An earlier try had no answer: the store may have executed it, or may do so later. */
  repeated = false
}

/** Marks the error of the last of several tries: the store may have executed an earlier one, or may do so later. */
export function markRepeated(error: unknown): unknown {
  if (error instanceof ServerRefusal) error.repeated = true
  return error instanceof NoResponseError && !error.wasSent
    ? new NoResponseError(error.message, true, error.cause)
    : error
}

/** Replies that must come from one server or term did not, or a reply came too late to count. */
export class InconclusiveError extends Error {}

export interface Failure {
  readonly error: BackendError
  /** Worth a retry while there is time. */
  readonly transient: boolean
  /** The store may have executed the request, or may do so later. */
  readonly ambiguous: boolean
}

/** @param store the store's name, for messages */
export function failureClassifier(store: string): (error: unknown) => Failure {
  return (error) => {
    if (error instanceof BackendError) return { error, transient: false, ambiguous: false }
    const message = error instanceof Error ? error.message : String(error)
    const unanswered = error instanceof NoResponseError
    const transient =
      error instanceof ServerRefusal ? error.transient : unanswered || error instanceof InconclusiveError
    const reported = new BackendError(store, message, { cause: error, unanswered, transient })
    if (unanswered) return { error: reported, transient, ambiguous: error.wasSent }
    if (error instanceof ServerRefusal)
      return { error: reported, transient, ambiguous: transient || error.repeated }
    return { error: reported, transient, ambiguous: true }
  }
}
