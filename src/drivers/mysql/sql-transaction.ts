/** The statements of `inTransaction`: one row per name, separate from the others, which stays locked for as long as a transaction lasts. */
import type { Tables } from './schema.js'
import { bytes, isSessionHeld, now, userLockName } from './sql.js'

/** Takes no lock. @returns the row */
export function findRow(table: string, name: string): string {
  return `SELECT token FROM ${table} WHERE name = ${bytes(name)}`
}

/** By the primary key, so it locks only this row; refused when the row is locked. @returns the row */
export function tryRow(table: string, name: string): string {
  return `${findRow(table, name)} FOR UPDATE NOWAIT`
}

/** Its token is the present time, as if the row had just been used. */
export function createRow(table: string, name: string): string {
  return `INSERT IGNORE INTO ${table} (name, token) VALUES (${bytes(name)}, ${now})`
}

/**
 * Locks the row, and creates it if it is missing: in one statement, because a search for a missing row locks a gap, in which nobody can
 * create it. It waits for the transaction that has locked the row or is creating it.
 */
export function lockOrCreateRow(table: string, name: string): string {
  return `${createRow(table, name).replace('IGNORE ', '')} ON DUPLICATE KEY UPDATE token = token`
}

/** @returns id: the new token, which others see once the transaction is committed */
export function mint(table: string, name: string): string {
  return `UPDATE ${table} SET token = LAST_INSERT_ID(GREATEST(token + 1, ${now})) WHERE name = ${bytes(name)}`
}

/** @returns a row with the letter of the kind when the strategy `row` or `session` holds the name now */
export function heldByLease(tables: Tables, name: string): string {
  return `SELECT kind FROM ${tables.locks} WHERE name = ${bytes(name)} AND until > ${now} AND kind <> '-'
AND (kind <> 'g' OR ${isSessionHeld(userLockName(tables, name))})`
}

/** Tokens follow the clock, so an old token means that the row was not used since. @returns names, the first few */
export function idleRows(table: string, retention: number): string {
  return `SELECT name FROM ${table} WHERE ${idle(retention)} LIMIT 200`
}

/** In a transaction, by the primary key: for several at once, the server could search the whole table. @returns the row, unless locked */
export function lockIdleRow(table: string, name: string, retention: number): string {
  return `${findRow(table, name)} AND ${idle(retention)} FOR UPDATE SKIP LOCKED`
}

export function dropRow(table: string, name: string): string {
  return `DELETE FROM ${table} WHERE name = ${bytes(name)}`
}

const idle = (retention: number) => `token < ${now} - ${Math.round(retention * 1000)}`
