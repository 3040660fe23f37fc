/**
 * Several holds begin in one statement, or none does. Like a batch of renewals, the statement finds its rows through a derived table and
 * skips those that somebody else has locked at that moment. So it waits for no row and cannot be part of a cycle. It is a transaction of
 * its own, so nobody sees a part of it, and nothing stays locked when its process stops.
 *
 * It writes nothing unless it has found a row for every claim. All claims get one token, above the newest of each name: tokens are compared
 * only within a name, and `LAST_INSERT_ID()` reports one number.
 */
import type { Tables } from './schema.js'
import { type AcquireParameters, bytes, type HoldStart, holdStart, started } from './sql.js'

/** The server identifies rows only by their place in the index: a table scan would lock the rows of others. */
const byKey = 'FORCE INDEX (PRIMARY)'

/** Above the newest token of every row found. */
const token = `GREATEST(d.most + 1, ${started})`

/** @returns id: the token of all; 0: none was taken, because one is not free, is locked at that moment, or has no row */
export function acquireAll(tables: Tables, parameters: readonly AcquireParameters[]): string {
  const begins = parameters.map((taking) => [taking.claim.name, holdStart(taking, token)] as const)
  const names = begins.map(([name]) => bytes(name)).join(', ')
  const guards = begins.map(([name, { guard }]) => `WHEN ${bytes(name)} THEN ${guard}`).join(' ')
  return `UPDATE (SELECT name, COUNT(*) OVER () AS found, MAX(top) OVER () AS most FROM (
    SELECT name, top FROM ${tables.locks} ${byKey} WHERE name IN (${names}) AND CASE name ${guards} ELSE FALSE END
    LIMIT ${begins.length} FOR UPDATE SKIP LOCKED) f) d
  STRAIGHT_JOIN ${tables.locks} l ${byKey} ON l.name = d.name
SET ${assignments(begins)}
WHERE d.found = ${begins.length}`
}

function assignments(begins: readonly (readonly [name: string, HoldStart])[]): string {
  const columns = new Set(begins.flatMap(([, one]) => Object.keys(one.columns)))
  return [...columns]
    .map((column) => {
      if (column === 'token') return `l.token = LAST_INSERT_ID(${token})`
      const cases = begins.map(
        ([name, one]) => `WHEN ${bytes(name)} THEN ${one.columns[column] ?? `l.${column}`}`,
      )
      return `l.${column} = CASE l.name ${cases.join(' ')} END`
    })
    .join(',\n  ')
}
