/**
 * What an error of the client or the server means. No error ever means "acquired" or "lost": a refusal says nothing
 * about who holds the lock, and silence says nothing at all.
 */
import { BackendError } from '../../core/errors.js'
import { noAnswer } from '../kit/no-answer.js'

export interface Failure {
  /** Worth retrying while the wait lasts. */
  readonly transient: boolean
  /** True if the statement may have been executed all the same. */
  readonly ambiguous: boolean
  readonly error: BackendError
}

/** SQLSTATEs (or their classes) of conditions that pass by themselves, and the message for a caller whose wait times out. */
const transientCodes: Readonly<Record<string, string>> = {
  '40': 'it was in the way of another transaction',
  '53300': 'it has no connection left (max_connections)',
  '53': 'it lacks memory, disk or connections',
  '55P03': 'somebody else keeps the row of this lock; a transaction on the tables of holdfast is left open',
  '57014': 'the statement was cancelled; is statement_timeout very short?',
  '57P03': 'it is starting or stopping',
  '25006':
    'it is read-only: a standby, a primary that has been replaced, or a connection with default_transaction_read_only',
}

/** SQLSTATEs of conditions that last until somebody acts. */
const permanentCodes: Readonly<Record<string, string>> = {
  '42501': 'the role lacks a right; `holdfast schema --role NAME` prints what it needs',
  '42883': 'its schema is missing or older than this driver; run what `holdfast schema` prints',
  '42P01': 'its tables are missing; run what `holdfast schema` prints',
  // A function declares a variable with the type of a row.
  '42704': 'its tables are missing; run what `holdfast schema` prints',
  '3F000': 'its schema is missing; run what `holdfast schema` prints',
  '28': 'the role could not log in',
  '25001':
    'the application has left this connection of postgres.js inside a transaction, so nothing was done; commit or roll back before release(), or give the locks their own instance',
  '22021':
    'the application has left the connection with a client_encoding that is not UTF8 and changes names, so nothing was done; RESET client_encoding before release(), or give the locks their own instance',
  '25P02':
    'the pool gave a connection that is inside a transaction, which has failed; end transactions before giving connections back',
  '3D000': 'there is no such database',
}

/** SQLSTATEs of a connection on which the application has left a transaction or a client_encoding; it may end that at any moment. */
const leftCodes = ['25001', '25P02', '22021']

/** SQLSTATEs with which the server ends a connection: its shutdown or an operator's command, a crash, a dropped database, or a time limit. */
const endCodes = ['57P01', '57P02', '57P04', '57P05', '25P03', '25P04']

/** SQLSTATEs after which the connection is gone, and the answer with it. */
const connectionCodes = [...endCodes, '08']

export function toFailure(error: unknown): Failure {
  if (error instanceof BackendError) return { transient: false, ambiguous: false, error }
  const code = findCode(error)
  const message = error instanceof Error ? error.message : String(error)
  // Must not match EPIPE, which has five letters too.
  const sqlState = /^(?:\d[\dA-Z]|F0|HV|P0|XX)[\dA-Z]{3}$/.test(code)
  if (sqlState && !connectionCodes.some((start) => code.startsWith(start))) {
    const known = (table: Readonly<Record<string, string>>) => table[code] ?? table[code.slice(0, 2)]
    const soon = known(transientCodes)
    const transient = soon !== undefined
    const why = soon ?? known(permanentCodes) ?? message
    const text = new BackendError('postgres', `the server refused (${code}): ${why}`, {
      cause: error,
      transient,
    })
    return { transient, ambiguous: false, error: text }
  }
  if (code === 'CONNECTION_ENDED' || code === 'POOL_ENDED') {
    const text = 'the pool was ended; end it after the locks'
    return { transient: false, ambiguous: true, error: new BackendError('postgres', text, { cause: error }) }
  }
  return {
    transient: true,
    ambiguous: true,
    error: new BackendError('postgres', noAnswer(message || code), { cause: error, unanswered: true }),
  }
}

export const isEndOfConnection = (error: unknown): boolean => endCodes.includes(findCode(error))

export const isLeft = (error: unknown): boolean => leftCodes.includes(findCode(error))

export function findCode(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' ? code : ''
}
