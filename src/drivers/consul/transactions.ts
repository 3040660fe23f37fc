/**
 * The transactions, each with its input and its result. All or nothing: any failed check undoes the rest.
 *
 * Long because it is a table of transactions.
 */
import type { Mode } from '../../core/mode.js'
import { lockFlag, type Operation } from './api-types.js'
import type { Line } from './keys.js'

const op = (Verb: Operation['KV']['Verb'], Key: string, rest: Partial<Operation['KV']> = {}): Operation => ({
  KV: { Verb, Key, ...rest },
})

/**
 * Enters the queue, takes the lock and reads the whole queue in one step. A claim that then finds entries ahead must free the lock again.
 * Fails: the lock key exists; else as `enter`.
 */
export function claim(line: Line, attempt: string, Value: string, Session: string): Operation[] {
  return [
    op('check-not-exists', line.lock),
    op('check-not-exists', line.over(attempt)),
    op('check-not-exists', line.place(attempt)),
    op('lock', line.place(attempt), { Value, Session }),
    op('lock', line.lock, { Value, Session, Flags: lockFlag }),
    op('get-tree', line.places),
    op('get', line.lock),
  ]
}

/** One of several locks that are taken together. */
export interface OneOf {
  readonly line: Line
  readonly attempt: string
  readonly value: string
  readonly mode: Mode
}

/**
 * Enters several queues, takes their locks and reads the queues in one step. A claim that then finds entries ahead in one of them must free
 * all. Readers and permits take no lock. `left`: as for `take`, for each. Fails: one of the locks is taken, or the attempt was given up.
 */
export function claimAll(
  all: readonly OneOf[],
  Session: string,
  left: readonly (number | undefined)[],
): Operation[] {
  return all.flatMap(({ line, attempt, value: Value, mode }, i) => {
    const Index = left[i]
    const lock = [
      Index === undefined ? op('check-not-exists', line.lock) : op('check-index', line.lock, { Index }),
      op('lock', line.lock, { Value, Session, Flags: lockFlag }),
    ]
    return [
      op('check-not-exists', line.over(attempt)),
      ...(mode.kind === 'exclusive' ? lock : [op('check-not-exists', line.place(attempt))]),
      op('lock', line.place(attempt), { Value, Session }),
      op('get-tree', line.places),
    ]
  })
}

/** Frees everything that `claimAll` took at `Index`. Fails: one of the locks has changed since. */
export function undoAll(all: readonly OneOf[], Index: number): Operation[] {
  return all.flatMap(({ line, attempt, mode }) => [
    ...(mode.kind === 'exclusive' ? letGo(line, Index) : []),
    op('delete', line.place(attempt)),
  ])
}

/**
 * Enters the queue, and reads the whole queue and the lock.
 * Fails: the attempt was given up, or already has its entry.
 */
export function enter(line: Line, attempt: string, Value: string, Session: string): Operation[] {
  return [
    op('check-not-exists', line.over(attempt)),
    op('check-not-exists', line.place(attempt)),
    op('lock', line.place(attempt), { Value, Session }),
    op('get-tree', line.places),
    op('get-tree', line.lock),
  ]
}

/** Reads the whole queue and the lock. Cannot fail. */
export function look(line: Line): Operation[] {
  return [op('get-tree', line.places), op('get-tree', line.lock)]
}

/**
 * Takes the lock if it is free and none of the entries `before` exists. Result: the lock; its ModifyIndex is the token.
 * `left`: the index of a lock key left without an owner; undefined: the key must not exist.
 *
 * This check matters: a session may take a lock again that it already has, and two holders of one process share a session.
 */
export function take(
  line: Line,
  attempt: string,
  Value: string,
  Session: string,
  before: readonly string[],
  left: number | undefined,
): Operation[] {
  return [
    op('check-session', line.place(attempt), { Session }),
    ...before.map((key) => op('check-not-exists', key)),
    left === undefined ? op('check-not-exists', line.lock) : op('check-index', line.lock, { Index: left }),
    op('lock', line.lock, { Value, Session, Flags: lockFlag }),
    op('get', line.lock),
  ]
}

/** Marks an entry as holding: the write gives it an index of its own, which is the token. Fails: the entry was lost. */
export function mark(line: Line, attempt: string, Value: string, Session: string): Operation[] {
  const place = line.place(attempt)
  return [op('check-session', place, { Session }), op('lock', place, { Value, Session }), op('get', place)]
}

/** Rewrites a lock that is held; its new index is the next token. Fails: the lock has changed, or the entry was lost. */
export function pass(
  line: Line,
  attempt: string,
  Index: number,
  Value: string,
  Session: string,
): Operation[] {
  return [
    op('check-index', line.lock, { Index }),
    op('check-session', line.place(attempt), { Session }),
    op('lock', line.lock, { Value, Session, Flags: lockFlag }),
    op('get', line.lock),
  ]
}

/** Removes the lock and its entry. Fails: the lock has changed since. */
export function free(line: Line, attempt: string, Index: number): Operation[] {
  return [op('check-index', line.lock, { Index }), op('delete', line.lock), op('delete', line.place(attempt))]
}

/** Accompanies a removal when a request for the entry may still be in flight: that request then has no effect. */
export function note(line: Line, attempt: string, Session: string): Operation[] {
  return [op('lock', line.over(attempt), { Value: '', Session })]
}

/** Leaves the queue. With `known`, fails if the entry did not exist. */
export function leave(line: Line, attempt: string, known: boolean): Operation[] {
  const place = line.place(attempt)
  return [...(known ? [op('get', place)] : []), op('delete', place)]
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
  line: Line,
  attempt: string,
  Index: number,
  Value: string,
  Session: string,
): Operation[] {
  return [
    op('check-index', line.lock, { Index }),
    op('delete', line.lock),
    ...mark(line, attempt, Value, Session),
  ]
}

/** Removes a lock that was taken out of turn, or whose claim no longer waits. Fails: the lock has changed since. */
export const letGo = (line: Line, Index: number): Operation[] => [
  op('check-index', line.lock, { Index }),
  op('delete', line.lock),
]

/** Removes keys if each is still as it was seen; else none. */
export function seize(keys: readonly { readonly key: string; readonly index: number }[]): Operation[] {
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
    const noted = Buffer.from(note.id).toString('base64')
    return [...unchanged, op('set', note.key, { Value: noted }), op('get', note.key)]
  }
  const write = Session === undefined ? op('set', key, { Value }) : op('lock', key, { Value, Session })
  return [...unchanged, write, op('get', key)]
}
