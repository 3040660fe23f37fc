/**
 * The key layout: `<prefix><name>/<attempt>`, one key per queue entry. `/` and `%` in a name are encoded as `%2F` and `%25`, so
 * that no queue's prefix begins with another's.
 *
 * etcd's own locks use the same layout: they look for `<name>/` and append their lease id.
 */
import type { KeyValue, RangeRequest } from './api-types.js'

export interface LockKeys {
  readonly name: string
  /** The prefix of every entry's key in this queue. */
  readonly prefix: string
  /** The key of an attempt's entry, in base64 like everything on the wire. */
  entry(attempt: string): string
  /** The key that marks an attempt as given up, outside of every queue: it must not enter any more. */
  tombstone(attempt: string): string
  /** The range of the whole queue. */
  readonly all: RangeRequest
}

export const base64 = (text: string): string => Buffer.from(text).toString('base64')
export const plain = (text: string): string => Buffer.from(text, 'base64').toString()

export function lockKeys(prefix: string, name: string): LockKeys {
  const own = `${prefix}${encode(name)}/`
  return {
    name,
    prefix: own,
    entry: (attempt) => base64(own + attempt),
    tombstone: (attempt) => base64(`${prefix}%over/${attempt}`),
    all: prefixRange(own),
  }
}

/** The range of all keys that begin with `beginning`. */
export function prefixRange(beginning: string): RangeRequest {
  if (beginning === '') return { key: base64('\0'), range_end: base64('\0') }
  const end = Buffer.from(beginning)
  // No byte of UTF-8 is 0xff, so the next byte value always exists.
  end[end.length - 1] = (end.at(-1) ?? 0) + 1
  return { key: base64(beginning), range_end: end.toString('base64') }
}

export function encode(name: string): string {
  return name.replaceAll('%', '%25').replaceAll('/', '%2F')
}

/** The name of the queue that a key belongs to; undefined for keys that are not ours. */
export function parseLockName(prefix: string, { key }: KeyValue): string | undefined {
  const text = plain(key)
  const end = text.lastIndexOf('/')
  if (!text.startsWith(prefix) || end <= prefix.length) return undefined
  const name = text.slice(prefix.length, end)
  if (/\/|%(?!25|2F)/.test(name)) return undefined
  return name.replaceAll('%2F', '/').replaceAll('%25', '%')
}
