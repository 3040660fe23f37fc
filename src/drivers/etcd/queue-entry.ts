/** One queue entry, as its key describes it. An empty key belongs to another client, `etcdctl lock` or a Go program: exclusive. */
import type { Claim, Holder } from '../../core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'
import type { KeyValue } from './api-types.js'
import { plain } from './keys.js'

export interface QueueEntry {
  /** In base64, as it is on the wire. */
  readonly key: string
  readonly attempt: string
  /** The create revision of the key: its position in the queue. */
  readonly created: number
  /** The modification revision. */
  readonly modified: number
  /** The holder's token: the one in the value, else the revision of the last write. */
  readonly token: number
  readonly lease: string
  readonly mode: Mode
  /** Absent: not given. */
  readonly ttl?: number
  /** Milliseconds since 1970, by the store's clock. */
  readonly since?: number
  readonly note?: string
  readonly client?: string
}

/** The value of an entry. JSON, so that `etcdctl get` shows it readable. */
interface EntryFields {
  readonly mode?: string
  readonly take?: number
  readonly of?: number
  readonly ttl?: number
  readonly since?: number
  /** Present where the entry was rewritten after the grant, for another reason than a new token. */
  readonly token?: number
  readonly note?: string
  readonly by?: string
}

export function encodeEntry({ mode, ttl, note }: Claim, since: number, by: string, token?: number): string {
  const { kind, ...rest } = mode
  const more = { ...(token !== undefined && { token }), ...(note !== undefined && { note }) }
  return JSON.stringify({ mode: kind, ...rest, ttl, since, by, ...more })
}

function safeRevision(revision: string): number {
  const number = Number(revision)
  if (!Number.isSafeInteger(number)) throw new Error(`revision ${revision} is beyond the safe integers`)
  return number
}

export function toQueueEntry({
  key,
  value = '',
  create_revision,
  mod_revision,
  lease = '0',
}: KeyValue): QueueEntry {
  const written = parseFields(plain(value))
  const text = plain(key)
  const modified = safeRevision(mod_revision)
  const { ttl, since, note, by } = written
  return {
    key,
    attempt: text.slice(text.lastIndexOf('/') + 1),
    created: safeRevision(create_revision),
    modified,
    token: typeof written.token === 'number' ? written.token : modified,
    lease,
    mode: toMode(written),
    ...(typeof ttl === 'number' && { ttl }),
    ...(typeof since === 'number' && { since }),
    ...(typeof note === 'string' && { note }),
    ...(typeof by === 'string' && { client: by }),
  }
}

function parseFields(text: string): EntryFields {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

/** @param value in base64 */
export const parseMode = (value: string): Mode => toMode(parseFields(plain(value)))

function toMode({ mode, take, of }: EntryFields): Mode {
  if (mode === 'shared') return shared
  if (mode === 'permits' && typeof take === 'number' && typeof of === 'number') return permits(take, of)
  return exclusive
}

/** @param left the remaining milliseconds of its lease, if requested */
export function toHolder(
  { attempt, mode, token, ttl, since, note, client }: QueueEntry,
  now: number,
  left?: number,
): Holder {
  return {
    attempt,
    mode,
    token,
    heldFor: since === undefined ? 0 : Math.max(0, now - since),
    expiresIn: left ?? ttl ?? Number.POSITIVE_INFINITY,
    ...(note !== undefined && { note }),
    ...(client !== undefined && { client }),
  }
}
