/**
 * A write that was sent and got no reply may or may not have been applied: every guard reports that with the same error. What the store
 * has answered, and what shows that nothing was sent, is thrown as it came.
 */
import { BackendError, outcomeUnknown } from '../core/errors.js'

/**
 * @param what the write, for the message
 * @param isAnswer is this error the store's answer to the write?
 * @throws BackendError with `outcome: 'unknown'`; the store's answer; the error of a connection that was not made
 */
export async function reportUnknown<T>(
  store: string,
  what: string,
  isAnswer: (error: unknown) => boolean,
  write: () => Promise<T>,
): Promise<T> {
  const from = performance.now()
  try {
    return await write()
  } catch (error) {
    if (error instanceof BackendError || isAnswer(error) || wasNotSent(error)) throw error
    throw outcomeUnknown(store, what, performance.now() - from, error)
  }
}

/** The status says all; the connection is free for the next request once the body has been read. */
export const drain = (response: Response): Promise<unknown> => response.arrayBuffer().catch(() => undefined)

/** A definite refusal over HTTP. Statuses from 500 on are none: a gateway has had no reply either, or a leader has just lost its place. */
export class HttpAnswer extends Error {}

export const isHttpAnswer = (error: unknown): boolean => error instanceof HttpAnswer

/** @param who the store, for the message */
export async function refusedOverHttp(who: string, response: Response): Promise<Error> {
  const message = `${who} answered ${response.status}: ${await response.text()}`
  return response.status < 500 ? new HttpAnswer(message) : new Error(message)
}

/** The connection was never made. The codes of the system alone do not show that: one that breaks can end with EHOSTUNREACH as well. */
function wasNotSent(error: unknown, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > 8) return false
  const { syscall, code, message, cause, errors } = error as Record<string, unknown>
  if (syscall === 'connect' || syscall === 'getaddrinfo') return true
  if (brokenHandshake.has(code) || noConnection.has(message)) return true
  const inner = Array.isArray(errors) && errors.length > 0 ? errors : [cause]
  return inner.every((one) => wasNotSent(one, depth + 1))
}

/** Node's codes for a certificate that was not accepted, and those of mysql2 for TLS: the handshake comes before anything is sent. */
const brokenHandshake: ReadonlySet<unknown> = new Set([
  'CERT_CHAIN_TOO_LONG',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REJECTED',
  'CERT_REVOKED',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'HANDSHAKE_NO_SSL_SUPPORT',
  'HANDSHAKE_SSL_ERROR',
  'HOSTNAME_MISMATCH',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** What pg throws when it has no connection: its errors have no code. */
const noConnection: ReadonlySet<unknown> = new Set([
  'timeout exceeded when trying to connect',
  'Connection terminated due to connection timeout',
  'The server does not support SSL connections',
])

/** SQLSTATEs with which a connection ends, whatever became of the statement: shutdown, KILL and the like, and 40003 by its definition. */
const endsConnection = /^(?:08...|57P0[1245]|25P0[34]|40003)$/

/** Errors of MySQL and MariaDB for a connection that was killed, timed out or broke. */
const lostConnection: ReadonlySet<number> = new Set([
  1152, 1158, 1159, 1160, 1161, 1184, 1835, 1927, 2006, 2013, 4031,
])

/** Has the server of `pg`, postgres.js, mysql2 or mariadb answered? */
export function isSqlAnswer(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { code, severity, errno, sqlState } = error as Record<string, unknown>
  if (typeof severity === 'string' && typeof code === 'string')
    return /^[\dA-Z]{5}$/.test(code) && !endsConnection.test(code)
  // From 45,000 on they are mariadb's own; the system's are negative.
  const ofServer = typeof errno === 'number' && errno >= 1000 && errno < 45_000
  return ofServer && typeof sqlState === 'string' && !lostConnection.has(errno)
}

/** Each error of a Redis server begins with a code in capitals; no error of a client does. */
export const isRedisAnswer = (error: unknown): boolean =>
  error instanceof Error && /^[A-Z]+(?= |$)/.test(error.message)

/** Connection loss, operation timeout and session expired: numbers of ZooKeeper's protocol, which all its clients report as `code`. */
const zookeeperLost: ReadonlySet<unknown> = new Set([-4, -7, -112])

export const isZookeeperAnswer = (error: unknown): boolean =>
  !zookeeperLost.has((error as { readonly code?: unknown } | null | undefined)?.code)
