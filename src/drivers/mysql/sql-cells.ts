/** The statements of cells, with the same four properties as those of locks (`sql.ts`): a cell is a row. */
import type { Tables } from './schema.js'
import { bytes, forever, later, now, present } from './sql.js'

/** Whether a reader sees a value: a removed cell leaves its row, for its version and the id of its removal. */
const isThere = `value IS NOT NULL AND ends > ${now}`

/** @returns version, value, µs until its end; no row: there is no such cell */
export function read(tables: Tables, key: string): string {
  return `SELECT version, value, ends - ${now} AS remaining FROM ${tables.cells} WHERE name = ${bytes(key)} AND ${isThere} LIMIT 1`
}

export interface Change {
  readonly key: string
  readonly ifVersion: number
  readonly value: string | undefined
  /** In ms. */
  readonly ttl: number
  readonly id: string
  /** By the server's clock, in µs. */
  readonly latest: number
}

/**
 * Replaces the value if the version is still the one seen and the change was not made before.
 * @returns id: the new version; 0: nothing was changed
 */
export function write(tables: Tables, { key, ifVersion, value, ttl, id, latest }: Change): string {
  const ends = Number.isFinite(ttl)
    ? `LEAST(${later} + ${Math.ceil(ttl * 1000)}, ${forever})`
    : String(forever)
  return `UPDATE ${tables.cells} SET value = ${value === undefined ? 'NULL' : bytes(value)}, ends = ${ends}, id = ${bytes(id)},
  version = LAST_INSERT_ID(GREATEST(version + 1, ${later}))
WHERE name = ${bytes(key)} AND id <> ${bytes(id)} AND IF(${isThere}, version, 0) = ${ifVersion} AND ${present} <= ${Math.round(latest)}`
}

/** @returns version and id of the row, whether or not it contains a cell; the version a reader sees, 0: none; now */
export function last(tables: Tables, key: string): string {
  return `SELECT version, id, IF(${isThere}, version, 0) AS seen, ${present} AS time FROM ${tables.cells} WHERE name = ${bytes(key)} LIMIT 1`
}

/** Creates the row of a cell, empty. Whether it already existed does not matter and is not checked. */
export function create(tables: Tables, key: string): string {
  return `INSERT IGNORE INTO ${tables.cells} (name) VALUES (${bytes(key)})`
}

const over = (retention: number) =>
  `(value IS NULL OR ends <= ${now}) AND version < ${now} - ${Math.round(retention * 1000)}`

/** @returns names of rows that were not written for `retention` ms and that hold nothing */
export function idle(tables: Tables, retention: number): string {
  return `SELECT name FROM ${tables.cells} WHERE ${over(retention)} LIMIT 100`
}

export function drop(tables: Tables, key: string, retention: number): string {
  return `DELETE FROM ${tables.cells} WHERE name = ${bytes(key)} AND ${over(retention)}`
}
