/** The meaning of the session's errors. None of them ever means "acquired" or "lost". */
import { BackendError } from '../../core/errors.js'
import { noAnswer } from '../kit/no-answer.js'
import { codes, ZookeeperError } from './session/protocol.js'

/** Refusals that last until an operator acts, and what to do. */
const lasting: Readonly<Record<number, string>> = {
  [codes.noAuth]:
    'the login lacks a right on the node of the lock or above it; it needs create, delete, read and write (acl, auth)',
  [codes.authFailed]: 'the login was refused; check auth',
  [codes.invalidAcl]: "the acl is not valid there; 'creator' needs a login that the server knows",
  [codes.noChildrenForEphemerals]:
    'another program, or strategy simple, uses the node of this lock itself; choose another name or chroot',
  [codes.unimplemented]: 'the server is too old; ZooKeeper 3.5 or newer is needed',
  [codes.marshalling]:
    'the server could not parse the request; is the name or note too long for jute.maxbuffer?',
  [codes.quota]: 'a quota of the ensemble is exhausted',
}

export const isCode = (error: unknown, code: number): boolean =>
  error instanceof ZookeeperError && error.code === code

export const closedError = (): BackendError =>
  new BackendError('zookeeper', 'these locks were closed', { closed: true })

/** Worth a retry: the connection broke, or the session ended. */
export const isTransient = (error: unknown): boolean =>
  isCode(error, codes.connectionLoss) ||
  isCode(error, codes.sessionExpired) ||
  isCode(error, codes.sessionMoved)

export function toFailure(error: unknown): BackendError {
  if (error instanceof BackendError) return error
  const message = error instanceof Error ? error.message : String(error)
  const remedy = error instanceof ZookeeperError ? lasting[error.code] : undefined
  if (remedy !== undefined) return new BackendError('zookeeper', `${message}; ${remedy}`, { cause: error })
  if (isTransient(error))
    return new BackendError('zookeeper', noAnswer(message), { cause: error, unanswered: true })
  // An error that the server did not send comes from the connection, unless the answer could not be parsed.
  const unanswered = !(error instanceof ZookeeperError || error instanceof RangeError)
  return new BackendError('zookeeper', message, { cause: error, unanswered })
}

/** For `catch`: treats these refusals as an answer. */
export function ignore(...codes: readonly number[]): (error: unknown) => undefined {
  return (error) => {
    if (codes.some((code) => isCode(error, code))) return undefined
    throw error
  }
}
