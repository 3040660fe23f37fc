/**
 * The transactions, each with its input and its result. All or nothing: any failed check undoes the rest.
 *
 * Long because it is a table of transactions.
 */
import type { Mode } from '../../core/mode.js'
import { lockFlag, type Operation } from './api-types.js'
import type { LockKeys } from './keys.js'

const op = (Verb: Operation['KV']['Verb'], Key: string, rest: Partial<Operation['KV']> = {}): Operation => ({
  KV: { Verb, Key, ...rest },
})

/**
 * Enters the queue, takes the lock and reads the whole queue in one step. A claim that then finds entries ahead must free the lock again.
 * Fails: the lock key exists; else as `enter`.
 */
export function claim(keys: LockKeys, attempt: string, Value: string, Session: string): Operation[] {
  return [
    op('check-not-exists', keys.lock),
    op('check-not-exists', keys.tombstone(attempt)),
    op('check-not-exists', keys.entry(attempt)),
    op('lock', keys.entry(attempt), { Value, Session }),
    op('lock', keys.lock, { Value, Session, Flags: lockFlag }),
    op('get-tree', keys.entryPrefix),
    op('get', keys.lock),
  ]
}

/** One of several locks that are taken together. */
export interface BatchPart {
  readonly keys: LockKeys
  readonly attempt: string
  readonly value: string
  readonly mode: Mode
}

/**
 * Enters several queues, takes their locks and reads the queues in one step. A claim that then finds entries ahead in one of them must free
 * all. Readers and permits take no lock. `left`: as for `take`, for each. Fails: one of the locks is taken, or the attempt was given up.
 */
export function claimAll(
  all: readonly BatchPart[],
  Session: string,
  left: readonly (number | undefined)[],
): Operation[] {
  return all.flatMap(({ keys, attempt, value: Value, mode }, i) => {
    const Index = left[i]
    const lock = [
      Index === undefined ? op('check-not-exists', keys.lock) : op('check-index', keys.lock, { Index }),
      op('lock', keys.lock, { Value, Session, Flags: lockFlag }),
    ]
    return [
      op('check-not-exists', keys.tombstone(attempt)),
      ...(mode.kind === 'exclusive' ? lock : [op('check-not-exists', keys.entry(attempt))]),
      op('lock', keys.entry(attempt), { Value, Session }),
      op('get-tree', keys.entryPrefix),
    ]
  })
}

/** Frees everything that `claimAll` took at `Index`. Fails: one of the locks has changed since. */
export function undoAll(all: readonly BatchPart[], Index: number): Operation[] {
  return all.flatMap(({ keys, attempt, mode }) => [
    ...(mode.kind === 'exclusive' ? freeLock(keys, Index) : []),
    op('delete', keys.entry(attempt)),
  ])
}

/**
 * Enters the queue, and reads the whole queue and the lock.
 * Fails: the attempt was given up, or already has its entry.
 */
export function enter(keys: LockKeys, attempt: string, Value: string, Session: string): Operation[] {
  return [
    op('check-not-exists', keys.tombstone(attempt)),
    op('check-not-exists', keys.entry(attempt)),
    op('lock', keys.entry(attempt), { Value, Session }),
    op('get-tree', keys.entryPrefix),
    op('get-tree', keys.lock),
  ]
}

/** Reads the whole queue and the lock. Cannot fail. */
export function readQueue(keys: LockKeys): Operation[] {
  return [op('get-tree', keys.entryPrefix), op('get-tree', keys.lock)]
}

/**
 * Takes the lock if it is free and none of the entries `before` exists. Result: the lock; its ModifyIndex is the token.
 * `left`: the index of a lock key left without an owner; undefined: the key must not exist.
 *
 * This check matters: a session may take a lock again that it already has, and two holders of one process share a session.
 */
export function take(
  keys: LockKeys,
  attempt: string,
  Value: string,
  Session: string,
  before: readonly string[],
  left: number | undefined,
): Operation[] {
  return [
    op('check-session', keys.entry(attempt), { Session }),
    ...before.map((key) => op('check-not-exists', key)),
    left === undefined ? op('check-not-exists', keys.lock) : op('check-index', keys.lock, { Index: left }),
    op('lock', keys.lock, { Value, Session, Flags: lockFlag }),
    op('get', keys.lock),
  ]
}

/** Marks an entry as holding: the write gives it an index of its own, which is the token. Fails: the entry was lost. */
export function markHeld(keys: LockKeys, attempt: string, Value: string, Session: string): Operation[] {
  const entry = keys.entry(attempt)
  return [op('check-session', entry, { Session }), op('lock', entry, { Value, Session }), op('get', entry)]
}

/** Rewrites a lock that is held; its new index is the next token. Fails: the lock has changed, or the entry was lost. */
export function mintToken(
  keys: LockKeys,
  attempt: string,
  Index: number,
  Value: string,
  Session: string,
): Operation[] {
  return [
    op('check-index', keys.lock, { Index }),
    op('check-session', keys.entry(attempt), { Session }),
    op('lock', keys.lock, { Value, Session, Flags: lockFlag }),
    op('get', keys.lock),
  ]
}

/** Removes the lock and its entry. Fails: the lock has changed since. */
export function releaseLock(keys: LockKeys, attempt: string, Index: number): Operation[] {
  return [op('check-index', keys.lock, { Index }), op('delete', keys.lock), op('delete', keys.entry(attempt))]
}

/** Accompanies a removal when a request for the entry may still be in flight: that request then has no effect. */
export function writeTombstone(keys: LockKeys, attempt: string, Session: string): Operation[] {
  return [op('lock', keys.tombstone(attempt), { Value: '', Session })]
}

/** Leaves the queue. With `known`, fails if the entry did not exist. */
export function leave(keys: LockKeys, attempt: string, known: boolean): Operation[] {
  const entry = keys.entry(attempt)
  return [...(known ? [op('get', entry)] : []), op('delete', entry)]
}

/** Moves keys to another session, at their position. Fails: one of them is not under the first session. */
export function move(
  keys: readonly { readonly key: string; readonly value: string; readonly lock: boolean }[],
  from: string,
  to: string,
): Operation[] {
  return keys.flatMap(({ key, value, lock }) => [
    op('check-session', key, { Session: from }),
    op('unlock', key, { Value: value, Session: from }),
    op('lock', key, { Value: value, Session: to, ...(lock && { Flags: lockFlag }) }),
    op('get', key),
  ])
}

/** Downgrades a writer to a reader: marks its entry, and removes the lock. Fails: the lock is not held. */
export function downgrade(
  keys: LockKeys,
  attempt: string,
  Index: number,
  Value: string,
  Session: string,
): Operation[] {
  return [
    op('check-index', keys.lock, { Index }),
    op('delete', keys.lock),
    ...markHeld(keys, attempt, Value, Session),
  ]
}

/** Removes a lock that was taken out of turn, or whose claim no longer waits. Fails: the lock has changed since. */
export const freeLock = (keys: LockKeys, Index: number): Operation[] => [
  op('check-index', keys.lock, { Index }),
  op('delete', keys.lock),
]

/** Removes keys if each is still as it was seen; else none. */
export function removeUnchanged(
  keys: readonly { readonly key: string; readonly index: number }[],
): Operation[] {
  return keys.flatMap(({ key, index }) => [op('check-index', key, { Index: index }), op('delete', key)])
}

/** Reads keys that may not exist. */
export const reads = (keys: readonly string[]): Operation[] => keys.map((key) => op('get-tree', key))

/**
 * Replaces a cell if its index is still `seen` (0: it does not exist). Without a value, removes it and writes a note, whose index is then
 * the version. The key is deleted first: a key that is only written to keeps its session.
 */
export function replace(
  key: string,
  seen: number,
  Value: string | undefined,
  Session: string | undefined,
  note: { readonly key: string; readonly id: string },
): Operation[] {
  const unchanged =
    seen === 0 ? [op('check-not-exists', key)] : [op('check-index', key, { Index: seen }), op('delete', key)]
  if (Value === undefined) {
    const tombstone = Buffer.from(note.id).toString('base64')
    return [...unchanged, op('set', note.key, { Value: tombstone }), op('get', note.key)]
  }
  const write = Session === undefined ? op('set', key, { Value }) : op('lock', key, { Value, Session })
  return [...unchanged, write, op('get', key)]
}
