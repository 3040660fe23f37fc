/** What a store over HTTP said is wrong, and whether trying again can help. */
import { BackendError } from '../../core/errors.js'
import { NoAnswer } from './http.js'

/** A definite answer that is none of those asked for. */
export abstract class Refused extends Error {
  /** Some time, or another member, may bring another answer. */
  abstract readonly passing: boolean
  /** The session has ended, and everything that was kept by it. */
  abstract readonly noSession: boolean
  /** An earlier try was not answered: that one may have been carried out, or may yet be. */
  repeated = false
}

/** What the last of several tries met, of which an earlier one may have been carried out, or may yet be. */
export function repeatedly(error: unknown): unknown {
  if (error instanceof Refused) error.repeated = true
  return error instanceof NoAnswer && !error.left ? new NoAnswer(error.message, true, error.cause) : error
}

/** Two answers that must belong together did not, or one came too late to count. */
export class Unsure extends Error {}

export interface Trouble {
  readonly error: BackendError
  /** Worth trying again while there is time. */
  readonly passing: boolean
  /** It may have been carried out, or may yet be. */
  readonly doubtful: boolean
}

/** @param store for messages */
export function troubleIn(store: string): (error: unknown) => Trouble {
  return (error) => {
    if (error instanceof BackendError) return { error, passing: false, doubtful: false }
    const message = error instanceof Error ? error.message : String(error)
    const told = new BackendError(store, message, { cause: error })
    if (error instanceof NoAnswer) return { error: told, passing: true, doubtful: error.left }
    if (error instanceof Refused) {
      const { passing, repeated } = error
      return { error: told, passing, doubtful: passing || repeated }
    }
    return { error: told, passing: error instanceof Unsure, doubtful: true }
  }
}
