/**
 * What an error of the client or the server means. No error ever means "acquired" or "lost": a refusal says nothing about who
 * holds the lock, and silence says nothing at all.
 */
import { BackendError } from '../../core/errors.js'
import { noAnswer } from '../kit/no-answer.js'
import { UnreadableAnswerError } from './readable.js'
import { UncommittedError } from './uncommitted.js'

export interface Failure {
  /** Worth retrying while the wait lasts. */
  readonly transient: boolean
  /** True if the statement may have been executed all the same. */
  readonly ambiguous: boolean
  readonly error: BackendError
}

/** The statement was rolled back to let another one through: send it again at once. */
export function isConflict(error: unknown): boolean {
  const { errno } = toFields(error)
  // Deadlock · lock wait timeout · user-level lock deadlock of MySQL · record changed since (MariaDB's snapshot isolation).
  return errno === 1213 || errno === 1205 || errno === 3058 || errno === 1020
}

const otherCollation =
  'a collation_connection (of ucs2, utf16, utf32, swe7) in which its statements mean something else; set it to one of utf8mb4'

/** How a connection refuses everything, or all writes, since the application that shares the pool has left it so. */
const leftErrors: Readonly<Record<number, string>> = {
  1099: 'LOCK TABLES; send UNLOCK TABLES',
  1100: 'LOCK TABLES; send UNLOCK TABLES',
  1104: 'a small max_join_size; set it or sql_big_selects to DEFAULT',
  1223: 'FLUSH TABLES WITH READ LOCK; send UNLOCK TABLES',
  1064: 'a character_set_client of armscii8, in which it understands no statement; set it to utf8mb4 (or it is older than MariaDB 10.6 and MySQL 8)',
  1399: 'an XA transaction; end it',
  1267: otherCollation,
  1270: otherCollation,
  1271: otherCollation,
  1969: 'a short max_statement_time; set it to DEFAULT, or allow a few seconds',
  1792: 'a read-only transaction or session; end it, or SET SESSION TRANSACTION READ WRITE',
  3024: 'a short max_execution_time; set it to DEFAULT, or allow a few seconds',
  3141: otherCollation,
  4038: otherCollation,
  4145: 'BACKUP STAGE or BACKUP LOCK; end it',
}

/** Nothing was done, for the state in which the connection was left. Another one may do it. */
export function isLeft(error: unknown): boolean {
  const known = error instanceof UnreadableAnswerError || error instanceof UncommittedError
  return known || (findErrno(error) ?? 0) in leftErrors
}

/** An operator has ended the statement (`KILL QUERY`): it was rolled back. */
const isKilled = (error: unknown) => toFields(error).errno === 1317

/**
 * How often a statement may be rolled back for others, how many connections may refuse it, and how often it may be killed, before the error is
 * reported.
 */
const limits = { conflicts: 50, left: 10, killed: 10 }

const retriesAfter = (error: unknown) => {
  if (isConflict(error)) return limits.conflicts
  if (isLeft(error)) return limits.left
  return isKilled(error) ? limits.killed : 0
}

/** Runs `work` again at once after an error that says that nothing was done and that the next time may succeed. */
export async function resending<T>(work: () => Promise<T>): Promise<T> {
  for (let n = 0; ; n++) {
    try {
      return await work()
    } catch (error) {
      if (n >= retriesAfter(error)) throw error
    }
  }
}

export function findErrno(error: unknown): number | undefined {
  return toFields(error).errno
}

export function isMissingTable(error: unknown): boolean {
  return toFields(error).errno === 1146
}

/** Refusals that pass by themselves, and the message for a caller whose wait times out. */
const transientErrors: Readonly<Record<number, string>> = {
  1040: 'it has too many connections; raise max_connections or make the pools smaller',
  1203: 'this user has too many connections; raise max_user_connections or make the pools smaller',
  1226: 'this user has used up a resource limit',
  1053: 'it is shutting down',
  1077: 'it is shutting down',
  1205: 'the row of the lock stayed locked; somebody holds it in a transaction of their own',
  1213: 'one deadlock after another',
  1317: 'the statement was killed',
  1290: 'it is read-only: a replica, or a server that is being promoted',
  1836: 'it is read-only: a replica, or a server that is being promoted',
  1047: 'this node of the cluster is not ready',
  3032: 'it is in offline mode (offline_mode)',
}

/** Refusals that last until somebody acts. */
const permanentErrors: Readonly<Record<number, string>> = {
  1044: 'the user may not use this database',
  1045: 'the user or the password is wrong',
  1046: 'no database is chosen; name one in the options of the pool',
  1049: 'there is no such database',
  1054: 'its tables are of another version; compare them with what `holdfast schema` prints',
  1142: 'the user lacks a right; it needs SELECT, INSERT, UPDATE, DELETE on the tables, and CREATE unless `holdfast schema` was run',
  1143: 'the user lacks a right on a column',
  1146: 'its tables are missing; run what `holdfast schema` prints',
}

/** The pool itself ran out or was closed: codes of mysql2 and of mariadb. */
const exhausted = /pool is closed|pool timeout|retrieve connection from pool|queue limit reached/i

export function toFailure(error: unknown): Failure {
  // Another connection may be as it should be.
  if (error instanceof UncommittedError) return { transient: true, ambiguous: false, error }
  if (error instanceof BackendError) return { transient: false, ambiguous: false, error }
  if (error instanceof TypeError) return failure(false, false, error.message, error)
  const { errno, sqlState, message, fatal } = toFields(error)
  if (exhausted.test(message)) {
    if (/closed/i.test(message))
      return failure(false, false, 'the pool is closed; close it after the locks', error)
    // While the server is silent, the pool runs out, and this may be the only sign of it. Nothing was sent.
    return failure(true, false, `no connection: ${message}`, error, true)
  }
  const where = 'the application has left this on connections of the pool, or it is set for all of them'
  if (error instanceof UnreadableAnswerError) {
    const what =
      'a character_set_results or character_set_client that the client does not read, as utf16, swe7 or dec8; set it to utf8mb4'
    return failure(true, false, `${message}; ${where}: ${what}`, error)
  }
  const left = errno === undefined ? undefined : leftErrors[errno]
  if (left !== undefined) {
    return failure(true, false, `the server refused (${errno}): ${message}; ${where}: ${left}`, error)
  }
  const soon = errno === undefined ? undefined : transientErrors[errno]
  if (soon !== undefined) return failure(true, false, `the server refused (${errno}): ${soon}`, error)
  const never = errno === undefined ? undefined : permanentErrors[errno]
  if (never !== undefined) return failure(false, false, `the server refused (${errno}): ${never}`, error)
  // Errors of a broken connection carry SQLSTATE 08S01 in one client and none in the other.
  if (
    errno !== undefined &&
    errno >= 1000 &&
    errno < 45_000 &&
    !fatal &&
    sqlState !== undefined &&
    !lost.has(errno)
  ) {
    return failure(false, false, `the server refused (${errno}): ${message}`, error)
  }
  return failure(true, true, noAnswer(message), error)
}

/** The connection was killed, timed out or broke: whether the statement was executed is not known. */
const lost = new Set([1152, 1158, 1159, 1160, 1161, 1184, 1927, 1835, 2006, 2013, 4031])

/** The server's last message on a connection: it was killed, or idle for too long. */
export function isConnectionEnd(error: unknown): boolean {
  return lost.has(toFields(error).errno ?? 0)
}

function failure(
  transient: boolean,
  ambiguous: boolean,
  message: string,
  cause: unknown,
  unanswered: boolean = transient && ambiguous,
): Failure {
  return { transient, ambiguous, error: new BackendError('mysql', message, { cause, unanswered, transient }) }
}

interface Fields {
  readonly errno: number | undefined
  readonly sqlState: string | undefined
  readonly message: string
  readonly fatal: boolean
}

function toFields(error: unknown): Fields {
  if (typeof error !== 'object' || error === null) {
    return { errno: undefined, sqlState: undefined, message: String(error), fatal: false }
  }
  const { errno, sqlState, message, sqlMessage, fatal, code } = error as Record<string, unknown>
  const words = [sqlMessage, message, code].find((one) => typeof one === 'string' && one !== '')
  return {
    // Socket errors carry a negative number of the operating system.
    errno: typeof errno === 'number' && errno > 0 ? errno : undefined,
    sqlState: typeof sqlState === 'string' ? sqlState : undefined,
    message: String(words ?? 'unknown').split('\n', 1)[0] ?? '',
    fatal: fatal === true,
  }
}
