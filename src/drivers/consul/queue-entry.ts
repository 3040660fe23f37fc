/** Parses the keys: queue entries, and the lock. A lock with another value than ours belongs to `consul lock` or a Go program. */
import type { Claim, Holder } from '../../core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'
import type { KeyValue } from './api-types.js'
import type { LockKeys } from './keys.js'

export interface QueueEntry {
  readonly key: string
  readonly attempt: string
  /** The CreateIndex: the order of the queue. */
  readonly order: number
  /** The ModifyIndex. */
  readonly index: number
  /** The holder's token: the one in the value, else the index. */
  readonly token: number
  readonly session: string
  readonly value: string
  readonly mode: Mode
  /** Marked as holding, when its owner found nothing in the way. */
  readonly held: boolean
  /** Absent: not given. */
  readonly ttl?: number
  /** Milliseconds since 1970, by the store's clock. */
  readonly since?: number
  readonly note?: string
  readonly client?: string
}

/** The queue of a name and its lock, at one moment. */
export interface QueueView {
  readonly entries: readonly QueueEntry[]
  readonly lock: QueueEntry | undefined
}

/** The value written. JSON, so that `consul kv get` shows it readable. */
interface EntryFields {
  readonly attempt?: string
  readonly mode?: string
  readonly take?: number
  readonly of?: number
  readonly ttl?: number
  readonly since?: number
  readonly held?: boolean
  /** Present where the key was rewritten after the grant. */
  readonly token?: number
  /** Local hand-overs of the grant. */
  readonly passes?: number
  readonly note?: string
  readonly by?: string
}

export function encodeEntry(
  { attempt, mode, ttl, note }: Claim,
  since: number,
  by: string,
  held: boolean,
): string {
  const { kind, ...rest } = mode
  const written: EntryFields = {
    attempt,
    mode: kind,
    ...rest,
    ttl,
    since,
    by,
    ...(held && { held }),
    ...(note !== undefined && { note }),
  }
  return Buffer.from(JSON.stringify(written)).toString('base64')
}

/** The value with the token added, so that a rewrite keeps the token. */
export function withToken(value: string, token: number): string {
  const text = Buffer.from(value, 'base64').toString()
  return Buffer.from(JSON.stringify({ ...parseFields(text), token })).toString('base64')
}

/** The value after so many local hand-overs. */
export function withHandoffs(value: string, passes: number): string {
  const text = Buffer.from(value, 'base64').toString()
  return Buffer.from(JSON.stringify({ ...parseFields(text), passes })).toString('base64')
}

export function toQueueView(keys: LockKeys, found: ReadonlyMap<string, KeyValue>): QueueView {
  const entries: QueueEntry[] = []
  for (const kv of found.values()) {
    const attempt = kv.Key.startsWith(keys.entryPrefix) ? kv.Key.slice(keys.entryPrefix.length) : ''
    if (/^[0-9a-f]{32}$/.test(attempt)) entries.push(toQueueEntry(kv, attempt))
  }
  const lock = found.get(keys.lock)
  return { entries: entries.sort((a, b) => a.order - b.order), lock: lock && toQueueEntry(lock) }
}

export function toQueueEntry(kv: KeyValue, known?: string): QueueEntry {
  const value = kv.Value ?? ''
  const { attempt, ttl, since, note, by, ...rest } = parseFields(Buffer.from(value, 'base64').toString())
  const session = kv.Session ?? ''
  return {
    key: kv.Key,
    attempt: known ?? (typeof attempt === 'string' ? attempt : session),
    order: kv.CreateIndex,
    index: safeIndex(kv.ModifyIndex),
    token: typeof rest.token === 'number' ? rest.token : safeIndex(kv.ModifyIndex),
    session,
    value,
    mode: toMode(rest),
    held: rest.held === true,
    ...(typeof ttl === 'number' && { ttl }),
    ...(typeof since === 'number' && { since }),
    ...(typeof note === 'string' && { note }),
    ...(typeof by === 'string' && { client: by }),
  }
}

export function safeIndex(index: number): number {
  if (!Number.isSafeInteger(index)) throw new Error(`index ${index} is beyond the safe integers`)
  return index
}

function parseFields(text: string): EntryFields {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

function toMode({ mode, take, of }: EntryFields): Mode {
  if (mode === 'shared') return shared
  if (mode === 'permits' && typeof take === 'number' && typeof of === 'number') return permits(take, of)
  return exclusive
}

export function toHolder(
  { attempt, mode, token, ttl, since, note, client }: QueueEntry,
  now: number,
): Holder {
  return {
    attempt,
    mode,
    token,
    heldFor: since === undefined ? 0 : Math.max(0, now - since),
    expiresIn: ttl ?? Number.POSITIVE_INFINITY,
    ...(note !== undefined && { note }),
    ...(client !== undefined && { client }),
  }
}

/** The holder: the owner of the lock, or the first entry that holds without it. */
export function findHolder({ entries, lock }: QueueView, now: number): Holder | undefined {
  const [first] = entries
  if (lock !== undefined && lock.session !== '') return toHolder(lock, now)
  return first === undefined || first.mode.kind === 'exclusive' ? undefined : toHolder(first, now)
}
