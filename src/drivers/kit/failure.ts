/** Classifies the errors of a store over HTTP: what is wrong, and whether a retry can help. */
import { BackendError } from '../../core/errors.js'
import { NoAnswer } from './http.js'

/** A definite answer, but not one the request asked for. */
export abstract class Refused extends Error {
  /** A later try, or another member, may give another answer. */
  abstract readonly passing: boolean
  /** The session has ended, and with it everything it kept. */
  abstract readonly noSession: boolean
  /** An earlier try had no answer: the store may have executed it, or may do so later. */
  repeated = false
}

/** Marks the error of the last of several tries: the store may have executed an earlier one, or may do so later. */
export function repeatedly(error: unknown): unknown {
  if (error instanceof Refused) error.repeated = true
  return error instanceof NoAnswer && !error.left ? new NoAnswer(error.message, true, error.cause) : error
}

/** Two answers that must belong together did not, or an answer came too late to count. */
export class Unsure extends Error {}

export interface Trouble {
  readonly error: BackendError
  /** Worth a retry while there is time. */
  readonly passing: boolean
  /** The store may have executed the request, or may do so later. */
  readonly doubtful: boolean
}

/** @param store the store's name, for messages */
export function troubleIn(store: string): (error: unknown) => Trouble {
  return (error) => {
    if (error instanceof BackendError) return { error, passing: false, doubtful: false }
    const message = error instanceof Error ? error.message : String(error)
    const told = new BackendError(store, message, { cause: error, unanswered: error instanceof NoAnswer })
    if (error instanceof NoAnswer) return { error: told, passing: true, doubtful: error.left }
    if (error instanceof Refused) {
      const { passing, repeated } = error
      return { error: told, passing, doubtful: passing || repeated }
    }
    return { error: told, passing: error instanceof Unsure, doubtful: true }
  }
}
