/** The statements of the SQL guards: text and values, for callers that send them themselves. */
import type { Dialect } from './sql-client.js'
import { checkedEntries, Text } from './sql-text.js'
import { Expression, type Plain } from './sql-value.js'

export interface Statement {
  readonly text: string
  readonly values: readonly Plain[]
}

export type Values = Readonly<Record<string, unknown>>

export interface Target {
  /** May be `schema.table`. */
  readonly table: string
  /** Column and value that name one row: its primary or a unique key. */
  readonly key: Values
  /** Where the newest token is kept: a BIGINT; NULL counts as 0. @default 'fence' */
  readonly column?: string
}

/**
 * The write, unless the row has seen a newer token. Parameters: the values of `set`, token, the key, token. Result: 1
 * row matched, or 0 when there is no such row or it has seen a newer token.
 */
export function updateStatement(
  dialect: Dialect,
  { table, key, column = 'fence' }: Target,
  set: Values,
  token: number,
): Statement {
  const to = new Text(dialect)
  const fence = to.column(column)
  const sets = [...to.sets(set, column), `${fence} = ${to.value(token, column)}`]
  return to.as(
    `update ${to.name(table)} set ${sets.join(', ')} where ${to.where(key)} and coalesce(${fence}, 0) <= ${to.value(token, column)}`,
  )
}

/** Deletes the row, unless it has seen a newer token. Parameters: the key, token. Result as `updateStatement`. */
export function deleteStatement(
  dialect: Dialect,
  { table, key, column = 'fence' }: Target,
  token: number,
): Statement {
  const to = new Text(dialect)
  return to.as(
    `delete from ${to.name(table)} where ${to.where(key)} and coalesce(${to.column(column)}, 0) <= ${to.value(token, column)}`,
  )
}

/**
 * Inserts the row, or overwrites it unless it has seen a newer token. Parameters: key, values, token, and on MySQL
 * once more for the update. Result: `readStatement` returns the row's fence afterwards; do not trust the row count on
 * MySQL.
 */
export function upsertStatement(
  dialect: Dialect,
  { table, key, column = 'fence' }: Target,
  set: Values,
  token: number,
): Statement {
  const to = new Text(dialect)
  const fence = to.column(column)
  const keys = checkedEntries('key', key, 1)
  const sets = checkedEntries('set', set, 0, column)
  for (const [name, value] of [...keys, ...sets])
    if (Expression.write(value, () => '') !== undefined)
      throw new TypeError(
        `${name} is an expression, and guardedUpsert may insert a row, which has nothing to compute from; use guardedUpdate, or a value`,
      )
  const columns = [...keys, ...sets].map(([name]) => to.column(name)).concat(fence)
  const values = keys.map(([name, value]) => to.key(value, `key.${name}`))
  values.push(...sets.map(([name, value]) => to.value(value, `set.${name}`)), to.value(token, column))
  const insert = `insert into ${to.name(table)} (${columns.join(', ')}) values (${values.join(', ')})`
  if (dialect === 'postgres') {
    const newer = [...sets.map(([name]) => to.column(name)), fence].map(
      (name) => `${name} = excluded.${name}`,
    )
    const unique = keys.map(([name]) => to.column(name)).join(', ')
    const newest = `coalesce(${to.name(table)}.${fence}, 0)`
    return to.as(
      `${insert} on conflict (${unique}) do update set ${newer.join(', ')} where ${newest} <= excluded.${fence}`,
    )
  }
  // Assigned from left to right: the fence comes last, so that the old one decides every column.
  const newer = sets.map(
    ([name, value]) =>
      `${to.column(name)} = if(coalesce(${fence}, 0) <= ${to.value(token, column)}, ${to.value(value, `set.${name}`)}, ${to.column(name)})`,
  )
  newer.push(`${fence} = greatest(coalesce(${fence}, 0), ${to.value(token, column)})`)
  return to.as(`${insert} on duplicate key update ${newer.join(', ')}`)
}

/** The newest token that a row has seen, as it is now. Parameters: the key. Result: one row `fence`, or none. */
export function readStatement(dialect: Dialect, { table, key, column = 'fence' }: Target): Statement {
  const to = new Text(dialect)
  return to.as(
    `select ${to.column(column)} as fence from ${to.name(table)} where ${to.where(key)} for update`,
  )
}

/** The whole row. Parameters: the key. */
export function selectStatement(dialect: Dialect, { table, key }: Target): Statement {
  const to = new Text(dialect)
  return to.as(`select * from ${to.name(table)} where ${to.where(key)}`)
}

/** The write, if nobody wrote since the version was read. Parameters: the values of `set`, the key, version. Result: 1 row or 0. */
export function versionStatement(
  dialect: Dialect,
  { table, key, column = 'version' }: Target,
  set: Values,
  version: unknown,
): Statement {
  const to = new Text(dialect)
  const name = to.column(column)
  const sets = [...to.sets(set, column), `${name} = ${name} + 1`]
  return to.as(
    `update ${to.name(table)} set ${sets.join(', ')} where ${to.where(key)} and ${name} = ${to.value(version, column)}`,
  )
}
