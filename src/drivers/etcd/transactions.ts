/**
 * The transactions, each with its input and its result. Keys and values are in base64.
 *
 * Long because it is a list, whose comparisons are read side by side.
 */
import type { Mode } from '../../core/mode.js'
import type { Compare, Operation, RangeRequest, RangeResponse, TxnRequest } from './api-types.js'
import type { LockKeys } from './keys.js'

const put = (key: string, value: string, lease: string): Operation => ({ request_put: { key, value, lease } })
const range = (ask: RangeRequest): Operation => ({ request_range: ask })
const remove = (key: string): Operation => ({ request_delete_range: { key } })
const absent = (key: string, range_end?: string): Compare => ({
  key,
  ...(range_end !== undefined && { range_end }),
  target: 'CREATE',
  result: 'EQUAL',
  create_revision: '0',
})
const atRevision = (key: string, revision: number): Compare => ({
  key,
  target: 'CREATE',
  result: 'EQUAL',
  create_revision: String(revision),
})

/** The last write to it was this one. */
const untouched = (key: string, revision: number): Compare => ({
  key,
  target: 'MOD',
  result: 'EQUAL',
  mod_revision: String(revision),
})

const newest = { sort_order: 'DESCEND', sort_target: 'CREATE', limit: '1' } as const
const oldest = { sort_order: 'ASCEND', sort_target: 'CREATE', limit: '1' } as const

/** An exclusive claim needs only the last entry ahead; the first is for messages. Other modes must read all. */
function ahead(all: RangeRequest, mode: Mode): Operation[] {
  return mode.kind === 'exclusive'
    ? [range({ ...all, ...newest }), range({ ...all, ...oldest })]
    : [range(all), range({ ...all, ...oldest })]
}

/**
 * Enters the queue and reads the entries ahead.
 * Input: entry, its value, the lease. Writes nothing when the attempt was given up, or already has its entry.
 * Result: succeeded → [ahead, first, put]; else → [own entry, all].
 */
export function enter(keys: LockKeys, attempt: string, mode: Mode, value: string, lease: string): TxnRequest {
  const key = keys.entry(attempt)
  return {
    compare: [absent(key), absent(keys.tombstone(attempt))],
    success: [...ahead(keys.all, mode), put(key, value, lease)],
    failure: [range({ key }), range(keys.all)],
  }
}

/** One of several entries that are created together. */
export interface BatchPart {
  readonly keys: LockKeys
  readonly attempt: string
  readonly value: string
}

const unchanged = ({ all }: LockKeys, revision: string): Compare => ({
  ...all,
  target: 'MOD',
  result: 'LESS',
  mod_revision: String(BigInt(revision) + 1n),
})

/**
 * Enters several queues at once, if all are empty; or, with a `revision`, if no entry was added or changed since.
 * Result: succeeded → [put] of each; else → [all] of each.
 */
export function takeAll(
  entries: readonly BatchPart[],
  lease: string,
  revision: string | undefined,
): TxnRequest {
  return {
    compare: entries.flatMap(({ keys, attempt }) => [
      revision === undefined ? absent(keys.all.key, keys.all.range_end) : unchanged(keys, revision),
      absent(keys.tombstone(attempt)),
    ]),
    success: entries.map(({ keys, attempt, value }) => put(keys.entry(attempt), value, lease)),
    failure: entries.map(({ keys }) => range(keys.all)),
  }
}

/**
 * Enters the queue only if it is empty: a single attempt.
 * Result: succeeded → [put]; else → [own entry, all].
 */
export function takeEmpty(keys: LockKeys, attempt: string, value: string, lease: string): TxnRequest {
  const { key, range_end } = keys.all
  return {
    compare: [absent(key, range_end), absent(keys.tombstone(attempt))],
    success: [put(keys.entry(attempt), value, lease)],
    failure: [range({ key: keys.entry(attempt) }), range(keys.all)],
  }
}

/**
 * Joins the holders if no entry was added or changed since `revision`: a single attempt beside others.
 * Result: succeeded → [put]; else → [own entry, all].
 */
export function join(
  keys: LockKeys,
  attempt: string,
  value: string,
  lease: string,
  revision: string,
): TxnRequest {
  const key = keys.entry(attempt)
  return {
    compare: [unchanged(keys, revision), absent(key), absent(keys.tombstone(attempt))],
    success: [put(key, value, lease)],
    failure: [range({ key }), range(keys.all)],
  }
}

/**
 * After a wait: does our own entry still exist, and what is ahead of it? The entry is written to, unchanged: if it holds now, the
 * revision of that write is its token. Its create revision may be less than the token of a hold that was passed on meanwhile.
 * `modified`: its last write was ours, so that a repeated request has no effect: it would change the token of a hold.
 * Result: succeeded → [ahead, first, put]; else → [own entry].
 */
export function readPredecessors(
  keys: LockKeys,
  attempt: string,
  mode: Mode,
  created: number,
  modified: number,
): TxnRequest {
  const before = { ...keys.all, max_create_revision: String(created - 1) }
  const key = keys.entry(attempt)
  const stamp = { request_put: { key, ignore_value: true, ignore_lease: true } }
  return {
    compare: [atRevision(key, created), untouched(key, modified)],
    success: [...ahead(before, mode), stamp],
    failure: [range({ key })],
  }
}

/**
 * Writes the entry of a hold that is passed on inside its process: the revision is the next token. `modified`: its last write was ours, so
 * that a repeated request has no effect. Result: succeeded → [put].
 */
export function mintToken(
  keys: LockKeys,
  attempt: string,
  created: number,
  modified: number,
  value: string,
): TxnRequest {
  const key = keys.entry(attempt)
  return {
    compare: [atRevision(key, created), untouched(key, modified)],
    success: [{ request_put: { key, value, ignore_lease: true } }],
  }
}

/**
 * Gives up an entry that may not have been created yet: a request still in flight then has no effect. The marker that ensures this lives as
 * long as the lease, without which the entry could not be created either.
 */
export function giveUp(keys: LockKeys, attempt: string, lease: string): TxnRequest {
  return { success: [remove(keys.entry(attempt)), put(keys.tombstone(attempt), '', lease)] }
}

/** Removes an entry without a marker. Result: [deleted]. */
export function leave(keys: LockKeys, attempt: string): TxnRequest {
  return { success: [remove(keys.entry(attempt))] }
}

const under = (key: string, lease: string): Compare => ({ key, target: 'LEASE', result: 'EQUAL', lease })

/**
 * Moves an entry to another lease, at its position. A holder's value must tell its token from then on.
 * Result: succeeded → it was under the first lease; else → [current entry].
 */
export function move(key: string, created: number, from: string, lease: string, value?: string): TxnRequest {
  return {
    compare: [atRevision(key, created), under(key, from)],
    success: [{ request_put: { key, lease, ...(value === undefined ? { ignore_value: true } : { value }) } }],
    failure: [range({ key })],
  }
}

/** Rewrites an entry's value, at its position. Result: succeeded → it was under this lease; else → [current entry]. */
export function rewrite(key: string, created: number, value: string, lease: string): TxnRequest {
  return {
    compare: [atRevision(key, created), under(key, lease)],
    success: [put(key, value, lease)],
    failure: [range({ key })],
  }
}

/** Removes the given holders, if each is unchanged; else none. Result: succeeded → all were removed. */
export function take(entries: readonly { readonly key: string; readonly created: number }[]): TxnRequest {
  return {
    compare: entries.map(({ key, created }) => atRevision(key, created)),
    success: entries.map(({ key }) => remove(key)),
  }
}

/**
 * An entry that others wait for: this key, created at this revision. A claim whose entry was removed enters again with the same key, behind
 * those that waited for the first one.
 */
export const entryMember = (key: string, created: number): string => `${key}\n${created}`

/** Which of these keys and entries exist? Result: one range each, for {@link isThere}. */
export function present(members: readonly string[]): TxnRequest {
  const ask = (member: string) => {
    const [key = '', created] = member.split('\n')
    return range(created === undefined ? { key, count_only: true } : { key, keys_only: true })
  }
  return { success: members.map(ask) }
}

/** @param found what `present` found for this member */
export function isThere(member: string, found: RangeResponse | undefined): boolean {
  const created = member.split('\n')[1]
  if (created === undefined) return Number(found?.count ?? 0) > 0
  return found?.kvs?.[0]?.create_revision === created
}

/**
 * Replaces a cell if its revision is still `seen` (0: it does not exist); without a value, removes it.
 * Result: succeeded → [put or delete]; else → [current cell].
 */
export function replace(
  key: string,
  seen: number,
  value: string | undefined,
  lease: string | undefined,
): TxnRequest {
  const write: Operation =
    value === undefined ? remove(key) : { request_put: { key, value, ...(lease !== undefined && { lease }) } }
  return {
    compare: [{ key, target: 'MOD', result: 'EQUAL', mod_revision: String(seen) }],
    success: [write],
    failure: [range({ key })],
  }
}

/** Does this entry still exist, created at this revision? For a user's own transaction. */
export const stillMine: (key: string, created: number) => Compare = atRevision
