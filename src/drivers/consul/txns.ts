/** The transactions, each headed with what it takes and gives. All or nothing: any check that fails undoes the rest. */
import type { Mode } from '../../core/mode.js'
import type { Line } from './keys.js'
import { lockFlag, type Operation } from './wire.js'

const op = (Verb: Operation['KV']['Verb'], Key: string, rest: Partial<Operation['KV']> = {}): Operation => ({
  KV: { Verb, Key, ...rest },
})

/**
 * Stands in line and takes the lock in the same step, and reads the whole line: who then finds others before it must let go again.
 * Fails: somebody has the lock; else as `enter`.
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

/** What is taken together with others. */
export interface OneOf {
  readonly line: Line
  readonly attempt: string
  readonly value: string
  readonly mode: Mode
}

/**
 * Stands in several lines and takes their locks in the same step, and reads the lines: who then finds others before it in one of them must
 * give all back. Readers and permits take no lock. `left`: as for `take`, of each. Fails: somebody has one of the locks, or the attempt was
 * given up.
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

/** Gives back what `claimAll` took at `Index`, all of it. Fails: one of them is not as it was. */
export function undoAll(all: readonly OneOf[], Index: number): Operation[] {
  return all.flatMap(({ line, attempt, mode }) => [
    ...(mode.kind === 'exclusive' ? letGo(line, Index) : []),
    op('delete', line.place(attempt)),
  ])
}

/**
 * Stands in line, and reads the whole line and who has the lock.
 * Fails: the attempt was given up, or has its place already.
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

/** Reads the whole line and who has the lock. Cannot fail. */
export function look(line: Line): Operation[] {
  return [op('get-tree', line.places), op('get-tree', line.lock)]
}

/**
 * Takes the lock, if nobody has it and none of `before` stands in line any more. Gives: the lock; its ModifyIndex is the token.
 * `left`: the index of a lock that was left there without an owner; undefined: there must be none.
 *
 * That it must not be there matters: a session may take again what it has, and two holders of one process share a session.
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

/** A place that holds says so: the write gives it an index of its own, which is the token. Fails: the place was lost. */
export function mark(line: Line, attempt: string, Value: string, Session: string): Operation[] {
  const place = line.place(attempt)
  return [op('check-session', place, { Session }), op('lock', place, { Value, Session }), op('get', place)]
}

/** Gives the lock and its place back. Fails: it is not this lock any more. */
export function free(line: Line, attempt: string, Index: number): Operation[] {
  return [op('check-index', line.lock, { Index }), op('delete', line.lock), op('delete', line.place(attempt))]
}

/** Goes with leaving when a request for the place is perhaps still on its way: whatever arrives of it does nothing any more. */
export function note(line: Line, attempt: string, Session: string): Operation[] {
  return [op('lock', line.over(attempt), { Value: '', Session })]
}

/** Leaves the line. Fails where `known`, if the place was not there. */
export function leave(line: Line, attempt: string, known: boolean): Operation[] {
  const place = line.place(attempt)
  return [...(known ? [op('get', place)] : []), op('delete', place)]
}

/** Puts keys under another session, where they stand. Fails: one of them is not under the first. */
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

/** A writer becomes a reader: its place says so, and the lock is left. Fails: it is not held. */
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

/** Lets go of a lock that was taken out of turn, or that nobody waits for any more. Fails: it is not that one any more. */
export const letGo = (line: Line, Index: number): Operation[] => [
  op('check-index', line.lock, { Index }),
  op('delete', line.lock),
]

/** Takes away keys, each only if it still is as it was seen. */
export function seize(keys: readonly { readonly key: string; readonly index: number }[]): Operation[] {
  return keys.flatMap(({ key, index }) => [op('check-index', key, { Index: index }), op('delete', key)])
}

/** Reads keys that may not be there. */
export const reads = (keys: readonly string[]): Operation[] => keys.map((key) => op('get-tree', key))

/**
 * Replaces a cell, if it still is as of index `seen` (0: is not there); without a value it is removed, and a note of that written, whose
 * index then is the version. Deleted first: a key that is only written to keeps the session it had.
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
