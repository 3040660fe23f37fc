/** The statements of an operator who takes a lock by force. */
import type { Tables } from './schema.js'
import { bytes, sessionConnection, userLockName } from './sql.js'

/** Ends every hold: an operator's decision. @param token the newest that was seen @returns id: 0: there is a newer hold since */
export function forceRelease(tables: Tables, name: string, token: number): string {
  return `UPDATE ${tables.locks} SET version = version + 1, kind = '-', owner = NULL, sharers = NULL, taken = 0, until = 0,
  top = LAST_INSERT_ID(GREATEST(top, 1)) WHERE name = ${bytes(name)} AND token = ${Math.round(token)}`
}

/**
 * Whose a hold is that lasts as long as a connection: the row says it, for the GET_LOCK may be a newcomer's already.
 * @returns the connection's id, or NULL; the id of the connection that asks; no row: this hold has ended
 */
export function connectionOf(tables: Tables, name: string, token: number): string {
  return `SELECT ${sessionConnection(userLockName(tables, name))} AS holder, CONNECTION_ID() AS own
FROM ${tables.locks} WHERE name = ${bytes(name)} AND kind = 'g' AND token = ${Math.round(token)} LIMIT 1`
}

/** @returns the id of the connection that has the GET_LOCK, or NULL */
export function usedBy(tables: Tables, name: string): string {
  return `SELECT IS_USED_LOCK(${userLockName(tables, name)}) AS holder LIMIT 1`
}

/** Ends that connection only if it has the GET_LOCK as this is carried out; otherwise there is no thread 0, which the server reports as 1094. */
export function endConnection(tables: Tables, name: string, id: number): string {
  return `KILL CONNECTION IF(IS_USED_LOCK(${userLockName(tables, name)}) = ${Math.round(id)}, ${Math.round(id)}, 0)`
}
