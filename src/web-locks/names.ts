/**
 * The specification's names are any strings, also empty ones, half surrogates and megabytes; those of holdfast are
 * not. This file encodes the first as the second, keeps different ones different, and decodes them.
 *
 * `%` and what holdfast refuses become `%uXXXX`, by UTF-16 unit. What is still longer than 480 bytes is cut and ends
 * in `%h` and its SHA-256, which cannot be decoded: `query` reports such a name only to a manager that has used it.
 */
import { createHash } from 'node:crypto'

export const prefix = 'web-lock/'
/** The two locks behind each name: see `queue-and-gate.ts`. */
export type Part = 'line' | 'gate'

const longest = 480
const kept = 80
const refused = /[\p{Cc}\p{Cs}%]/gu

export function encode(name: string): string {
  const safe = name.replace(refused, (unit) => `%u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  if (Buffer.byteLength(safe) <= longest) return safe
  const hash = createHash('sha256').update(Buffer.from(name, 'utf16le')).digest('hex')
  return `${head(safe)}%h${hash}`
}

/** Its beginning, without half an escape or half a surrogate pair. */
function head(safe: string): string {
  return safe
    .slice(0, kept)
    .replace(/%u?[0-9a-f]{0,3}$/, '')
    .replace(/[\ud800-\udbff]$/, '')
}

/** `undefined` for a name that was too long. */
export function decode(encoded: string): string | undefined {
  if (encoded.includes('%h')) return undefined
  return encoded.replace(/%u([0-9a-f]{4})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

export function lockName(part: Part, encoded: string): string {
  return `${prefix}${part}/${encoded}`
}

/** What `lockName` encoded; `undefined`: not one of ours. */
export function readLockName(name: string): { part: Part; encoded: string } | undefined {
  const [, part, encoded] = /^web-lock\/(line|gate)\/(.*)$/s.exec(name) ?? []
  return part === undefined || encoded === undefined ? undefined : { part: part as Part, encoded }
}

/** The requester, in the note that the store keeps beside each holder and waiter. */
export interface RequestNote {
  readonly clientId: string
  readonly request: string
  readonly steal: boolean
}

export function toNote({ clientId, request, steal }: RequestNote): string {
  return `${steal ? 'web lock stolen' : 'web lock'} by ${clientId}, request ${request}`
}

export function parseNote(note: string | undefined): RequestNote | undefined {
  const [, how, clientId, request] =
    /^(web lock|web lock stolen) by (\S+), request (\S+)$/.exec(note ?? '') ?? []
  if (clientId === undefined || request === undefined) return undefined
  return { clientId, request, steal: how === 'web lock stolen' }
}
