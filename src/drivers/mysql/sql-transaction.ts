/** The statements of `inTransaction`: one row per name, separate from the others, which stays locked for as long as a transaction lasts. */
import type { Tables } from './schema.js'
import { bytes, isSessionHeld, later, now, present, userLockName } from './sql.js'

/** @returns 1, or 0 where a transaction begins by itself */
export const autocommit = 'SELECT @@autocommit AS autocommit LIMIT 1'

const row = (table: string, name: string) => `SELECT token FROM ${table} WHERE name = ${bytes(name)}`

/** Takes no lock. @returns the row */
export function findRow(table: string, name: string): string {
  return `${row(table, name)} LIMIT 1`
}

/** By the primary key, so it locks only this row; refused when the row is locked. @returns the row */
export function tryRow(table: string, name: string): string {
  return `${findRow(table, name)} FOR UPDATE NOWAIT`
}

/** Its token is the present time, as if the row had just been used. */
export function createRow(table: string, name: string): string {
  return `INSERT IGNORE INTO ${table} (name, token) VALUES (${bytes(name)}, ${later})`
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
  return `UPDATE ${table} SET token = LAST_INSERT_ID(GREATEST(token + 1, ${later})) WHERE name = ${bytes(name)}`
}

/** @returns a row with the letter of the kind when the strategy `row` or `session` holds the name now */
export function heldByLease(tables: Tables, name: string): string {
  return `SELECT kind FROM ${tables.locks} WHERE name = ${bytes(name)} AND until > ${present} AND kind <> '-'
AND (kind <> 'g' OR ${isSessionHeld(userLockName(tables, name))}) LIMIT 1`
}

/** Tokens follow the clock, so an old token means that the row was not used since. @returns names, the first few */
export function idleRows(table: string, retention: number): string {
  return `SELECT name FROM ${table} WHERE ${idle(retention)} LIMIT 200`
}

/** In a transaction, by the primary key: for several at once, the server could search the whole table. @returns the row, unless locked */
export function lockIdleRow(table: string, name: string, retention: number): string {
  return `${row(table, name)} AND ${idle(retention)} LIMIT 1 FOR UPDATE SKIP LOCKED`
}

export function dropRow(table: string, name: string): string {
  return `DELETE FROM ${table} WHERE name = ${bytes(name)}`
}

const idle = (retention: number) => `token < ${now} - ${Math.round(retention * 1000)}`
