/** Parses the keys: queue entries, and the lock. A lock with another value than ours belongs to `consul lock` or a Go program. */
import type { Claim, Holder } from '../../core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'
import type { KeyValue } from './api-types.js'
import type { Line } from './keys.js'

export interface Place {
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
export interface View {
  readonly line: readonly Place[]
  readonly lock: Place | undefined
}

/** The value written. JSON, so that `consul kv get` shows it readable. */
interface Written {
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

export function writtenOf(
  { attempt, mode, ttl, note }: Claim,
  since: number,
  by: string,
  held: boolean,
): string {
  const { kind, ...rest } = mode
  const written: Written = {
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
  return Buffer.from(JSON.stringify({ ...read(text), token })).toString('base64')
}

/** The value after so many local hand-overs. */
export function withPass(value: string, passes: number): string {
  const text = Buffer.from(value, 'base64').toString()
  return Buffer.from(JSON.stringify({ ...read(text), passes })).toString('base64')
}

export function viewOf(line: Line, found: ReadonlyMap<string, KeyValue>): View {
  const places: Place[] = []
  for (const kv of found.values()) {
    const attempt = kv.Key.startsWith(line.places) ? kv.Key.slice(line.places.length) : ''
    if (/^[0-9a-f]{32}$/.test(attempt)) places.push(placeOf(kv, attempt))
  }
  const lock = found.get(line.lock)
  return { line: places.sort((a, b) => a.order - b.order), lock: lock && placeOf(lock) }
}

export function placeOf(kv: KeyValue, known?: string): Place {
  const value = kv.Value ?? ''
  const { attempt, ttl, since, note, by, ...rest } = read(Buffer.from(value, 'base64').toString())
  const session = kv.Session ?? ''
  return {
    key: kv.Key,
    attempt: known ?? (typeof attempt === 'string' ? attempt : session),
    order: kv.CreateIndex,
    index: safe(kv.ModifyIndex),
    token: typeof rest.token === 'number' ? rest.token : safe(kv.ModifyIndex),
    session,
    value,
    mode: modeOf(rest),
    held: rest.held === true,
    ...(typeof ttl === 'number' && { ttl }),
    ...(typeof since === 'number' && { since }),
    ...(typeof note === 'string' && { note }),
    ...(typeof by === 'string' && { client: by }),
  }
}

export function safe(index: number): number {
  if (!Number.isSafeInteger(index)) throw new Error(`index ${index} is beyond the safe integers`)
  return index
}

function read(text: string): Written {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

function modeOf({ mode, take, of }: Written): Mode {
  if (mode === 'shared') return shared
  if (mode === 'permits' && typeof take === 'number' && typeof of === 'number') return permits(take, of)
  return exclusive
}

export function holderOf({ attempt, mode, token, ttl, since, note, client }: Place, now: number): Holder {
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
export function holderIn({ line, lock }: View, now: number): Holder | undefined {
  const [first] = line
  if (lock !== undefined && lock.session !== '') return holderOf(lock, now)
  return first === undefined || first.mode.kind === 'exclusive' ? undefined : holderOf(first, now)
}
