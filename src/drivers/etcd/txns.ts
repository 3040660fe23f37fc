/** The transactions, each headed with what it takes and gives. Keys and values are in base64. */
import type { Mode } from '../../core/mode.js'
import type { Line } from './keys.js'
import type { Compare, Operation, RangeAsk, TxnAsk } from './wire.js'

const put = (key: string, value: string, lease: string): Operation => ({ request_put: { key, value, lease } })
const range = (ask: RangeAsk): Operation => ({ request_range: ask })
const remove = (key: string): Operation => ({ request_delete_range: { key } })
const absent = (key: string, range_end?: string): Compare => ({
  key,
  ...(range_end !== undefined && { range_end }),
  target: 'CREATE',
  result: 'EQUAL',
  create_revision: '0',
})
const made = (key: string, revision: number): Compare => ({
  key,
  target: 'CREATE',
  result: 'EQUAL',
  create_revision: String(revision),
})

const newest = { sort_order: 'DESCEND', sort_target: 'CREATE', limit: '1' } as const
const oldest = { sort_order: 'ASCEND', sort_target: 'CREATE', limit: '1' } as const

/** Of what stands before, an exclusive claim needs only the last; the first is for messages. The others must see all. */
function ahead(all: RangeAsk, mode: Mode): Operation[] {
  return mode.kind === 'exclusive'
    ? [range({ ...all, ...newest }), range({ ...all, ...oldest })]
    : [range(all), range({ ...all, ...oldest })]
}

/**
 * Stands in line and reads what is before.
 * Takes: place, its value, the lease. Does nothing when the attempt has been given up, or has its place already.
 * Gives: succeeded → [before, first, put]; else → [own place, all].
 */
export function enter(line: Line, attempt: string, mode: Mode, value: string, lease: string): TxnAsk {
  const key = line.place(attempt)
  return {
    compare: [absent(key), absent(line.over(attempt))],
    success: [...ahead(line.all, mode), put(key, value, lease)],
    failure: [range({ key }), range(line.all)],
  }
}

/** A place of several that are taken together. */
export interface OneOf {
  readonly line: Line
  readonly attempt: string
  readonly value: string
}

const unchanged = ({ all }: Line, revision: string): Compare => ({
  ...all,
  target: 'MOD',
  result: 'LESS',
  mod_revision: String(BigInt(revision) + 1n),
})

/**
 * Takes a place in several lines at once, all of which are empty; or, with a `revision`, to none of which anybody has come since.
 * Gives: succeeded → [put] of each; else → [all] of each.
 */
export function takeAll(places: readonly OneOf[], lease: string, revision: string | undefined): TxnAsk {
  return {
    compare: places.flatMap(({ line, attempt }) => [
      revision === undefined ? absent(line.all.key, line.all.range_end) : unchanged(line, revision),
      absent(line.over(attempt)),
    ]),
    success: places.map(({ line, attempt, value }) => put(line.place(attempt), value, lease)),
    failure: places.map(({ line }) => range(line.all)),
  }
}

/**
 * Takes an empty line, and only that: one attempt.
 * Gives: succeeded → [put]; else → [own place, all].
 */
export function takeEmpty(line: Line, attempt: string, value: string, lease: string): TxnAsk {
  const { key, range_end } = line.all
  return {
    compare: [absent(key, range_end), absent(line.over(attempt))],
    success: [put(line.place(attempt), value, lease)],
    failure: [range({ key: line.place(attempt) }), range(line.all)],
  }
}

/**
 * Joins those that hold, if nobody has come since `revision`: one attempt beside others.
 * Gives: succeeded → [put]; else → [own place, all].
 */
export function join(line: Line, attempt: string, value: string, lease: string, revision: string): TxnAsk {
  const key = line.place(attempt)
  return {
    compare: [unchanged(line, revision), absent(key), absent(line.over(attempt))],
    success: [put(key, value, lease)],
    failure: [range({ key }), range(line.all)],
  }
}

/**
 * After waiting: is the own place still there, and what is before it?
 * Gives: succeeded → [before, first]; else nothing: the place was lost.
 */
export function look(line: Line, attempt: string, mode: Mode, token: number): TxnAsk {
  const before = { ...line.all, max_create_revision: String(token - 1) }
  return { compare: [made(line.place(attempt), token)], success: ahead(before, mode) }
}

/**
 * Gives up a place that may not have been taken yet: whatever of it is still on its way does nothing any more. The note stays for
 * as long as the lease, without which the place could not be taken either.
 */
export function giveUp(line: Line, attempt: string, lease: string): TxnAsk {
  return { success: [remove(line.place(attempt)), put(line.over(attempt), '', lease)] }
}

/** As `giveUp` when the lease is over. Gives: [deleted]. */
export function leave(line: Line, attempt: string): TxnAsk {
  return { success: [remove(line.place(attempt))] }
}

const under = (key: string, lease: string): Compare => ({ key, target: 'LEASE', result: 'EQUAL', lease })

/** Puts a place under another lease, where it stands. Gives: succeeded → it was under the first; else → [what is there]. */
export function move(key: string, token: number, from: string, lease: string): TxnAsk {
  return {
    compare: [made(key, token), under(key, from)],
    success: [{ request_put: { key, lease, ignore_value: true } }],
    failure: [range({ key })],
  }
}

/** Changes what a place says, where it stands. Gives: succeeded → it was under this lease; else → [what is there]. */
export function rewrite(key: string, token: number, value: string, lease: string): TxnAsk {
  return {
    compare: [made(key, token), under(key, lease)],
    success: [put(key, value, lease)],
    failure: [range({ key })],
  }
}

/** Takes away the holders given, each only if it still is that one. Gives: succeeded → all of them were taken. */
export function take(places: readonly { readonly key: string; readonly token: number }[]): TxnAsk {
  return {
    compare: places.map(({ key, token }) => made(key, token)),
    success: places.map(({ key }) => remove(key)),
  }
}

/** Which of these keys are there? Gives: one count each. */
export function present(keys: readonly string[]): TxnAsk {
  return { success: keys.map((key) => range({ key, count_only: true })) }
}

/**
 * Replaces a cell, if it still is as of revision `seen` (0: is not there); without a value it is removed.
 * Gives: succeeded → [put or delete]; else → [what is there].
 */
export function replace(
  key: string,
  seen: number,
  value: string | undefined,
  lease: string | undefined,
): TxnAsk {
  const write: Operation =
    value === undefined ? remove(key) : { request_put: { key, value, ...(lease !== undefined && { lease }) } }
  return {
    compare: [{ key, target: 'MOD', result: 'EQUAL', mod_revision: String(seen) }],
    success: [write],
    failure: [range({ key })],
  }
}

/** Is this place still there, under this revision? For a user's own transaction. */
export const stillMine: (key: string, token: number) => Compare = made
