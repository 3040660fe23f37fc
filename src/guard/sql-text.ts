/** A statement under construction: names are quoted, values get placeholders. */
import { describe } from '../core/name.js'
import type { Statement, Values } from './sql.js'
import type { Dialect } from './sql-client.js'
import { Expression, Json, type Plain, plain } from './sql-value.js'

/** Collects values while a statement's text is built, in the order of their placeholders. */
export class Text {
  readonly #dialect: Dialect
  readonly #values: Plain[] = []

  constructor(dialect: Dialect) {
    this.#dialect = dialect
  }

  /** A table's quoted name; a dot separates schema and table. */
  name(name: string): string {
    return checked(name)
      .split('.')
      .map((part) => this.#quoted(part))
      .join('.')
  }

  /** A column's quoted name. Data may name columns, so a dot has no meaning here. */
  column(name: string): string {
    return this.#quoted(checked(name))
  }

  /** @param what its name in messages */
  value(value: unknown, what: string): string {
    const part = Expression.write(value, (one) => this.#place(one))
    if (part !== undefined) return `(${part})`
    const json = Json.toText(value)
    if (json === undefined) return this.#place(plain(value, what))
    // Through text, because a client may take what goes straight into a JSON column for a value to be encoded.
    return this.#dialect === 'mysql' ? this.#place(json) : `cast(cast(${this.#place(json)} as text) as jsonb)`
  }

  /**
   * A value that a key is compared with. MySQL compares text with a number as floating-point numbers, so that 0
   * equals every text without digits. So a value that is not text is sent as text; numbers compare with it as before.
   */
  key(value: unknown, what: string): string {
    if (this.#dialect !== 'mysql') return this.value(value, what)
    if (typeof value === 'boolean') return this.#place(value ? '1' : '0')
    if (typeof value !== 'number' && typeof value !== 'bigint') return this.value(value, what)
    return this.#place(String(plain(value, what)))
  }

  sets(set: Values, kept: string): string[] {
    return checkedEntries('set', set, 0, kept).map(
      ([name, value]) => `${this.column(name)} = ${this.value(value, `set.${name}`)}`,
    )
  }

  where(key: Values): string {
    const parts = checkedEntries('key', key, 1).map(([name, value]) => {
      if (value === null)
        throw new TypeError(`key.${name} is null: nothing equals null; name the row by a value`)
      return `${this.column(name)} = ${this.key(value, `key.${name}`)}`
    })
    return parts.join(' and ')
  }

  as(text: string): Statement {
    return { text, values: this.#values }
  }

  #quoted(name: string): string {
    const quote = this.#dialect === 'mysql' ? '`' : '"'
    return quote + name.replaceAll(quote, quote + quote) + quote
  }

  #place(value: Plain): string {
    this.#values.push(value)
    return this.#dialect === 'mysql' ? '?' : `$${this.#values.length}`
  }
}

/**
 * A key of a table of holdfast's own. MySQL keeps it as bytes, and a client encodes text as its connection says: in latin1 or GBK, one name
 * would have two keys, and names that differ only in characters missing there would share one.
 */
export function ownKey(dialect: Dialect, name: string): Plain {
  return dialect === 'mysql' ? Buffer.from(name) : name
}

/** @param kept the column that the guard itself writes */
export function checkedEntries(
  what: string,
  values: Values,
  least: number,
  kept?: string,
): readonly [string, unknown][] {
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw new TypeError(`${what} must be an object of columns and values, got ${describe(values)}`)
  const entries = Object.entries(values)
  if (entries.length < least) throw new RangeError(`${what} names no column`)
  for (const [name, value] of entries) {
    if (value === undefined) throw new TypeError(`${what}.${name} is undefined; leave it out or use null`)
    if (kept !== undefined && name.toLowerCase() === kept.toLowerCase())
      throw new RangeError(`${what}.${name}: the guard itself writes the column ${kept}`)
  }
  return entries
}

function checked(name: string): string {
  if (typeof name !== 'string' || name === '' || name.includes('\0'))
    throw new TypeError(`a table or column must have a name, got ${describe(name)}`)
  return name
}
