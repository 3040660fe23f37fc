/**
 * What a statement may carry. Values come from outside: whatever they look like, they are data. So only values that
 * every client binds as one value pass, each as a fresh copy without properties of its own; part of a statement is
 * recognised by its class.
 */
import { types } from 'node:util'
import { describe } from '../core/name.js'

/** What a client binds. */
export type Plain = string | number | bigint | boolean | null | Date | Uint8Array

/**
 * Part of a statement instead of a value: see `expression`. Only that function makes one: a lookalike object, from a
 * request for example, is refused.
 */
export class Expression {
  readonly #text: string
  readonly #values: readonly Plain[]

  constructor(text: string, values: readonly Plain[]) {
    this.#text = text
    this.#values = values
  }

  /** Its text, each `?` replaced by what `place` returns for its value; `undefined` for everything that is not an expression. */
  static write(given: unknown, place: (value: Plain) => string): string | undefined {
    if (typeof given !== 'object' || given === null || !(#text in given)) return undefined
    let next = 0
    return given.#text.replace(/\?/g, () => place(given.#values[next++] as Plain))
  }
}

/** A value for a column of type JSON: see `json`. */
export class Json {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  /** `undefined` for everything that `json` did not make. */
  static toText(given: unknown): string | undefined {
    return typeof given === 'object' && given !== null && #text in given ? given.#text : undefined
  }
}

/**
 * Part of a statement instead of a value: `expression('stock - ?', 1)`, on every database. Each `?` stands for one
 * value. The text goes into the statement as it is: never build it from anything that came from outside.
 * @throws TypeError, RangeError for values that cannot be bound, or whose number differs from that of the
 * placeholders
 */
export function expression(text: string, ...values: unknown[]): Expression {
  if (typeof text !== 'string') throw new TypeError(`expression takes a text, got ${describe(text)}`)
  const places = text.split('?').length - 1
  if (places !== values.length)
    throw new RangeError(
      `expression ${JSON.stringify(text)} has ${places} placeholders for ${values.length} values`,
    )
  return new Expression(
    text,
    values.map((value, at) => plain(value, `value ${at + 1} of expression ${JSON.stringify(text)}`)),
  )
}

/** A value for a column of type JSON: `set: { settings: json({ dark: true }) }`. Sent as text; nothing in it is ever part of the statement. */
export function json(value: unknown): Json {
  const text = JSON.stringify(value)
  if (text === undefined)
    throw new TypeError(`json takes a value that JSON can represent, got ${describe(value)}`)
  return new Json(text)
}

/** The value in a form that can be bound. @throws TypeError, RangeError naming it */
export function plain(value: unknown, what: string): Plain {
  if (typeof value === 'string' || typeof value === 'bigint' || typeof value === 'boolean') return value
  if (value === null) return null
  if (typeof value === 'number') {
    if (!Number.isFinite(value))
      throw new RangeError(`${what} is ${value}, which is not a number that a column can store`)
    return value + 0
  }
  if (value === undefined) throw new TypeError(`${what} is undefined; leave it out or use null`)
  if (types.isDate(value)) {
    const time = Date.prototype.getTime.call(value)
    if (Number.isNaN(time)) throw new RangeError(`${what} is an invalid Date`)
    return new Date(time)
  }
  if (types.isUint8Array(value)) return Buffer.from(value)
  throw new TypeError(
    `${what} is ${describe(value)}; a value is a string, number, bigint, boolean, null, Date or Uint8Array. For a column of type JSON use json(value), for anything else its text`,
  )
}
