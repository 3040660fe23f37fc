/**
 * The keys of a lock. All keys of a name carry it as their hash tag, so that in a Cluster they share a slot and one script may
 * touch them. `{`, `}` and `%` inside the name are percent-encoded; otherwise a name could choose another slot, or two names could
 * share keys.
 */

/** The hash, the queue and the deadlines of one lock: see `scripts/state.ts`. */
export type Keys = readonly [hash: string, line: string, deadlines: string]

export function encode(name: string): string {
  return /[%{}]/.test(name)
    ? name.replace(/[%{}]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    : name
}

export function keysOf(prefix: string, name: string): Keys {
  const hash = `${prefix}{${encode(name)}}`
  return [hash, `${hash}:q`, `${hash}:d`]
}

/** The hash of one cell, and the channels to notify of its next change: see `scripts/cells.ts`. */
export function cellKeysOf(prefix: string, key: string): readonly [cell: string, watching: string] {
  const cell = `${prefix}{${encode(key)}}:c`
  return [cell, `${cell}:w`]
}

/** The name a hash key belongs to; undefined for other keys: those of the queue and the deadlines end differently. */
export function nameOf(prefix: string, key: string): string | undefined {
  if (!key.startsWith(`${prefix}{`) || !key.endsWith('}')) return undefined
  return key
    .slice(prefix.length + 1, -1)
    .replace(/%(25|7B|7D)/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
}

/** The SCAN pattern for the hash keys of every name with this beginning. */
export function patternOf(prefix: string, beginning: string): string {
  return `${glob(`${prefix}{${encode(beginning)}`)}*}`
}

function glob(text: string): string {
  return text.replace(/[\\*?[\]]/g, '\\$&')
}

/** The key of the marker: which server wrote the data, for the whole keyspace. Only outside a Cluster. */
export function bootKey(prefix: string): string {
  return `${prefix}boot`
}

/** The one channel of a process. */
export function channelOf(prefix: string, process: string): string {
  return `${prefix}c:${process}`
}
