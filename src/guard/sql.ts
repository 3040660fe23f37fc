/** The statements of the SQL guards: text and values, for those who send them themselves. */
import { describe } from '../core/name.js'
import type { Dialect, SqlRow } from './sql-client.js'

export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** Part of a statement instead of a value: `expression('stock - ?', 1)`. Each `?` stands for one value. */
export interface Expression {
  readonly expression: string
  readonly values: readonly unknown[]
}

export function expression(text: string, ...values: unknown[]): Expression {
  const places = text.split('?').length - 1
  if (places !== values.length)
    throw new RangeError(
      `expression ${JSON.stringify(text)} has ${places} places for ${values.length} values`,
    )
  return { expression: text, values }
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
 * The write, if no newer token has been there. Parameters: the values of `set`, token, the key, token. Result: 1 row matched, or 0
 * when there is no such row or it has seen a newer token.
 */
export function updateStatement(
  dialect: Dialect,
  { table, key, column = 'fence' }: Target,
  set: Values,
  token: number,
): Statement {
  const to = new Text(dialect)
  const fence = to.name(column)
  const sets = [...entriesOf('set', set, 0).map(([name, value]) => `${to.name(name)} = ${to.value(value)}`)]
  sets.push(`${fence} = ${to.value(token)}`)
  return to.as(
    `update ${to.name(table)} set ${sets.join(', ')} where ${to.where(key)} and coalesce(${fence}, 0) <= ${to.value(token)}`,
  )
}

/** The row goes, if no newer token has been there. Parameters: the key, token. Result as `updateStatement`. */
export function deleteStatement(
  dialect: Dialect,
  { table, key, column = 'fence' }: Target,
  token: number,
): Statement {
  const to = new Text(dialect)
  return to.as(
    `delete from ${to.name(table)} where ${to.where(key)} and coalesce(${to.name(column)}, 0) <= ${to.value(token)}`,
  )
}

/**
 * The row comes, or is written over if no newer token has been there. Parameters: key, values, token, and on MySQL once more for the
 * update. Result: what the row's fence is afterwards is told by `readStatement`; the count of rows is not to be trusted on MySQL.
 */
export function upsertStatement(
  dialect: Dialect,
  { table, key, column = 'fence' }: Target,
  set: Values,
  token: number,
): Statement {
  const to = new Text(dialect)
  const fence = to.name(column)
  const row = [...entriesOf('key', key, 1), ...entriesOf('set', set, 0), [column, token] as const]
  const columns = row.map(([name]) => to.name(name)).join(', ')
  const values = row.map(([, value]) => to.value(value)).join(', ')
  const insert = `insert into ${to.name(table)} (${columns}) values (${values})`
  if (dialect === 'postgres') {
    const sets = [...Object.keys(set), column].map((name) => `${to.name(name)} = excluded.${to.name(name)}`)
    const keys = Object.keys(key).map((name) => to.name(name))
    const newest = `coalesce(${to.name(table)}.${fence}, 0)`
    return to.as(
      `${insert} on conflict (${keys.join(', ')}) do update set ${sets.join(', ')} where ${newest} <= excluded.${fence}`,
    )
  }
  // Assigned from left to right: the fence comes last, so that every column is decided by the old one.
  const sets = Object.entries(set).map(
    ([name, value]) =>
      `${to.name(name)} = if(coalesce(${fence}, 0) <= ${to.value(token)}, ${to.value(value)}, ${to.name(name)})`,
  )
  sets.push(`${fence} = greatest(coalesce(${fence}, 0), ${to.value(token)})`)
  return to.as(`${insert} on duplicate key update ${sets.join(', ')}`)
}

/** The newest token a row has seen, as it is now. Parameters: the key. Result: one row `fence`, or none. */
export function readStatement(dialect: Dialect, { table, key, column = 'fence' }: Target): Statement {
  const to = new Text(dialect)
  return to.as(`select ${to.name(column)} as fence from ${to.name(table)} where ${to.where(key)} for update`)
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
  const name = to.name(column)
  const sets = entriesOf('set', set, 0).map(([field, value]) => `${to.name(field)} = ${to.value(value)}`)
  sets.push(`${name} = ${name} + 1`)
  return to.as(
    `update ${to.name(table)} set ${sets.join(', ')} where ${to.where(key)} and ${name} = ${to.value(version)}`,
  )
}

/** Collects values while a statement's text is put together, in the order of their places. */
export class Text {
  readonly #dialect: Dialect
  readonly #values: unknown[] = []

  constructor(dialect: Dialect) {
    this.#dialect = dialect
  }

  /** A quoted identifier; a dot parts schema and table. */
  name(name: string): string {
    if (typeof name !== 'string' || name === '' || name.includes('\0'))
      throw new TypeError(`a table or column must have a name, got ${describe(name)}`)
    const quote = this.#dialect === 'mysql' ? '`' : '"'
    return name
      .split('.')
      .map((part) => quote + part.replaceAll(quote, quote + quote) + quote)
      .join('.')
  }

  value(value: unknown): string {
    if (!isExpression(value)) return this.#place(value)
    let next = 0
    return `(${value.expression.replace(/\?/g, () => this.#place(value.values[next++]))})`
  }

  where(key: Values): string {
    const parts = entriesOf('key', key, 1).map(([name, value]) => {
      if (value === null)
        throw new TypeError(`key.${name} is null: nothing equals null; name the row by a value`)
      return `${this.name(name)} = ${this.value(value)}`
    })
    return parts.join(' and ')
  }

  as(text: string): Statement {
    return { text, values: this.#values }
  }

  #place(value: unknown): string {
    this.#values.push(value)
    return this.#dialect === 'mysql' ? '?' : `$${this.#values.length}`
  }
}

function entriesOf(what: string, values: Values, least: number): [string, unknown][] {
  if (typeof values !== 'object' || values === null)
    throw new TypeError(`${what} must be an object of columns and values, got ${describe(values)}`)
  const entries = Object.entries(values)
  if (entries.length < least) throw new RangeError(`${what} names no column`)
  for (const [name, value] of entries)
    if (value === undefined) throw new TypeError(`${what}.${name} is undefined; leave it out or use null`)
  return entries
}

function isExpression(value: unknown): value is Expression {
  return typeof (value as SqlRow | null)?.['expression'] === 'string'
}
