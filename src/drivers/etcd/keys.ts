/**
 * Names as keys: `<prefix><name>/<attempt>`, one key for each place in line; `/` and `%` inside a name are written `%2F` and
 * `%25`, so that the line of one name never begins with the line of another.
 *
 * That is the layout of etcd's own locks, which look for `<name>/` and put their lease id behind it.
 */
import type { KeyValue, RangeAsk } from './wire.js'

export interface Line {
  readonly name: string
  /** Every place of the line begins with it. */
  readonly prefix: string
  /** The key of an attempt's place, in base64 as everything on the wire. */
  place(attempt: string): string
  /** Where an attempt is written down that must not get a place any more: outside of every line. */
  over(attempt: string): string
  /** All of the line. */
  readonly all: RangeAsk
}

export const base64 = (text: string): string => Buffer.from(text).toString('base64')
export const plain = (text: string): string => Buffer.from(text, 'base64').toString()

export function lineOf(prefix: string, name: string): Line {
  const own = `${prefix}${encode(name)}/`
  return {
    name,
    prefix: own,
    place: (attempt) => base64(own + attempt),
    over: (attempt) => base64(`${prefix}%over/${attempt}`),
    all: rangeOf(own),
  }
}

/** Every key that begins with `beginning`. */
export function rangeOf(beginning: string): RangeAsk {
  if (beginning === '') return { key: base64('\0'), range_end: base64('\0') }
  const end = Buffer.from(beginning)
  // No byte of UTF-8 is 0xff, so there always is a next one.
  end[end.length - 1] = (end.at(-1) ?? 0) + 1
  return { key: base64(beginning), range_end: end.toString('base64') }
}

export function encode(name: string): string {
  return name.replaceAll('%', '%25').replaceAll('/', '%2F')
}

/** The name whose line a key stands in; undefined for keys that are none of ours. */
export function nameOf(prefix: string, { key }: KeyValue): string | undefined {
  const text = plain(key)
  const end = text.lastIndexOf('/')
  if (!text.startsWith(prefix) || end <= prefix.length) return undefined
  const name = text.slice(prefix.length, end)
  if (/\/|%(?!25|2F)/.test(name)) return undefined
  return name.replaceAll('%2F', '/').replaceAll('%25', '%')
}
