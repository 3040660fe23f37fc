/**
 * The queue-and-grant state machine as plain data: one `Row` per name (`row.ts`) and one pure function per command that
 * returns the next row. No clock, no I/O, no classes; a row is immutable, so a caller may keep, compare, send or discard it.
 * It runs inside `memory` and in the broker of `local`, and is the model other stores are compared with.
 *
 * Long because all transitions are read, and modelled, together.
 *
 * The rules:
 * - An attempt waits, then holds, then has ended, and never goes back. So every command may arrive twice: a repeated
 *   acquire returns the same token, a repeated release is answered as such, and an acquire that arrives after its own release
 *   or cancel is `over` instead of making a lock nobody knows of. (Overdue is not ended: the attempt may ask again.)
 * - The queue is FIFO for all; a try does not overtake it, nor does `fair: false`. Readers join readers and permits join
 *   permits only while no one waits ahead of them, so a waiting writer or big request is not starved.
 * - Everything that fits at the head of the queue is granted in the step that made room for it.
 * - A token is minted in the step of its grant. An exclusive grant reserves `tokenReserve` more for hand-overs inside its
 *   process; the release reports the last one used, and those after it are free again.
 * - A hold ends sooner only by a renewal with an order greater than that of all before it: a late copy of any other command shortens nothing.
 * - The next command on the row drops an overdue hold; `nextExpiry` is the time to look.
 *
 * `now` is monotonic milliseconds; `wall` is the store's wall clock in milliseconds, the floor of tokens and no more.
 */
import type { ReleaseResult } from '../../core/driver.js'
import { shared } from '../../core/mode.js'
import { admits, grantFromHead, mintHold, type RefreshedRow, refresh } from './admission.js'
import { findEntry, withEntry, withoutEntry } from './queue.js'
import {
  type AcquireRequest,
  createRow,
  emptyList,
  type Hold,
  maxEnded,
  permitLimit,
  type QueueEntry,
  type Row,
} from './row.js'

export { emptyRow, isIdle, nextExpiry, toHolder, toLockStatus } from './row.js'
export type { AcquireRequest, Hold, QueueEntry, Row }

/** The result of a command. */
export interface Step<Answer> {
  readonly row: Row
  readonly answer: Answer
  /** Attempts that waited and hold now, in order. Never the attempt of the command itself: that one is in the answer. */
  readonly granted: readonly Hold[]
  /** Holds found overdue. */
  readonly expired: readonly Hold[]
}

export type AcquireResult =
  | { readonly is: 'granted'; readonly hold: Hold }
  /** `position` 1 is next. */
  | { readonly is: 'waiting'; readonly position: number; readonly ticket: number }
  | { readonly is: 'busy' }
  /** The attempt has been released or cancelled before. */
  | { readonly is: 'over' }
  /** A semaphore of this name is in use with another limit. */
  | { readonly is: 'limit'; readonly limit: number }

export function acquire(
  before: Row,
  request: AcquireRequest,
  now: number,
  wall: number,
): Step<AcquireResult> {
  const seen = refresh(before, now, wall)
  const { row } = seen
  const { attempt, mode } = request
  if (row.ended.includes(attempt)) return step(seen, { is: 'over' })
  const held = findHold(row, attempt)
  if (held !== undefined) {
    const hold = prolong(held, request.ttl, now)
    return step(seen, { is: 'granted', hold }, swap(row, held, hold), attempt)
  }
  const queued = findEntry(row.queue, attempt)
  if (queued !== undefined) {
    return step(seen, { is: 'waiting', position: queued.index + 1, ticket: queued.entry.ticket })
  }
  if (mode.kind === 'permits') {
    const limit = permitLimit(row)
    if (limit !== undefined && limit !== mode.of) return step(seen, { is: 'limit', limit })
  }
  if (row.queue.length === 0 && admits(row, mode)) {
    const hold = mintHold(request, row.token, now, wall)
    const held = row.holds.length === 0 ? [hold] : [...row.holds, hold]
    return step(seen, { is: 'granted', hold }, createRow(row.name, hold.upTo, held, row.queue, row.ended))
  }
  return request.wait ? enqueue(seen, request, now, wall) : step(seen, { is: 'busy' })
}

/**
 * Renews a hold for `ttl` ms from now. Answers the hold; undefined: the attempt does not hold the lock (any more).
 * @param order may also end it sooner, unless a renewal with this order or a greater one came before; absent: for `ttl` ms at least
 */
export function renew(
  before: Row,
  attempt: string,
  ttl: number,
  now: number,
  wall: number,
  order?: number,
): Step<Hold | undefined> {
  const seen = refresh(before, now, wall)
  const held = findHold(seen.row, attempt)
  if (held === undefined) return step(seen, undefined)
  const exact = order !== undefined && order > (held.order ?? 0)
  const hold = exact ? { ...held, ttl, expires: now + ttl, order } : prolong(held, ttl, now)
  return step(seen, hold, swap(seen.row, held, hold), attempt)
}

/** Ends a hold. `last` is the greatest token its process used; if unknown, the whole reserve counts as used. */
export function release(
  before: Row,
  attempt: string,
  last: number | undefined,
  now: number,
  wall: number,
): Step<ReleaseResult> {
  const seen = refresh(before, now, wall)
  const held = findHold(seen.row, attempt)
  if (held === undefined) {
    return step(seen, seen.row.ended.includes(attempt) ? 'already-released' : 'lost')
  }
  return leave(seen, 'released', withoutHold(seen.row, held, last), attempt, now, wall)
}

/**
 * Ends an attempt wherever it is: queued, holding, or still in flight. Answers whether it was here.
 * @param comesBack the attempt may ask again; otherwise a later request of it is refused
 */
export function cancel(
  before: Row,
  attempt: string,
  now: number,
  wall: number,
  comesBack = false,
): Step<boolean> {
  const seen = refresh(before, now, wall)
  const { row } = seen
  const held = findHold(row, attempt)
  if (held !== undefined) {
    const gone = withoutHold(row, held, held.token)
    const { name, token } = gone
    // The attempt was granted in this very step, and has not been notified.
    const forgotten = comesBack ? createRow(name, token, gone.holds, gone.queue, row.ended) : gone
    return leave(seen, true, forgotten, attempt, now, wall)
  }
  const queued = findEntry(row.queue, attempt)
  const queue = queued === undefined ? row.queue : withoutEntry(row.queue, queued)
  const ended = comesBack ? row.ended : remember(row, attempt)
  return leave(seen, queued !== undefined, { ...row, queue, ended }, attempt, now, wall)
}

/**
 * Turns an exclusive hold into a shared one and grants readers at the head of the queue. The hold keeps the token used last.
 * Answers the hold as it is now, unchanged if it is shared already; undefined: not held, or not exclusive.
 */
export function downgrade(
  before: Row,
  attempt: string,
  last: number | undefined,
  now: number,
  wall: number,
): Step<Hold | undefined> {
  const seen = refresh(before, now, wall)
  const held = findHold(seen.row, attempt)
  if (held?.mode.kind !== 'exclusive') {
    return step(seen, held?.mode.kind === 'shared' ? held : undefined, seen.row, attempt)
  }
  const token = lastUsed(held, last)
  const hold: Hold = { ...held, mode: shared, token, upTo: token }
  return leave(seen, hold, { ...seen.row, token, holds: [hold] }, attempt, now, wall)
}

/**
 * Ends every hold: an operator's decision. Returns the holds it ended.
 * @param whose the attempts whose holds to end; absent: all
 */
export function forceRelease(
  before: Row,
  now: number,
  wall: number,
  whose?: readonly string[],
): Step<readonly Hold[]> {
  const meant = (hold: Hold) => whose?.includes(hold.attempt) ?? true
  const held = before.holds.filter((hold) => hold.expires > now && meant(hold))
  const seen: RefreshedRow = {
    row: before,
    granted: emptyList,
    expired: before.holds.filter((hold) => hold.expires <= now),
  }
  const others = before.holds.filter((hold) => hold.expires > now && !meant(hold))
  return leave(seen, held, { ...before, holds: others }, undefined, now, wall)
}

/** Brings the row up to date: only time has passed. */
export function expire(before: Row, now: number, wall: number): Step<undefined> {
  return step(refresh(before, now, wall), undefined)
}

function enqueue(
  seen: RefreshedRow,
  request: AcquireRequest,
  now: number,
  wall: number,
): Step<AcquireResult> {
  const { row } = seen
  const { attempt, mode, ttl, note, client } = request
  const ticket = request.ticket ?? nextTicket(row.queue.at(-1)?.ticket ?? 0, wall)
  const { queue, index } = withEntry(row.queue, { attempt, mode, ttl, since: now, ticket, note, client })
  // Only an entry at the very head can fit: the present head does not fit, and blocks those behind it.
  const next =
    index === 0 ? grantFromHead({ ...row, queue }, now, wall) : { row: { ...row, queue }, granted: emptyList }
  const hold = next.granted.find((one) => one.attempt === attempt)
  const answer: AcquireResult = hold
    ? { is: 'granted', hold }
    : { is: 'waiting', position: index + 1, ticket }
  return step({ ...seen, granted: [...seen.granted, ...next.granted] }, answer, next.row, attempt)
}

/** Tickets grow with the wall clock, so that entries made before a restart stay ahead of those made after it. */
function nextTicket(last: number, wall: number): number {
  return Math.max(last + 1, Math.floor(wall * 1000))
}

/** `row` has just lost a hold or a queue entry: grants what fits now. */
function leave<Answer>(
  seen: RefreshedRow,
  answer: Answer,
  row: Row,
  about: string | undefined,
  now: number,
  wall: number,
): Step<Answer> {
  if (row.queue.length === 0) return step(seen, answer, row, about)
  const next = grantFromHead(row, now, wall)
  const granted = seen.granted.length === 0 ? next.granted : [...seen.granted, ...next.granted]
  return step({ ...seen, granted }, answer, next.row, about)
}

function step<Answer>(seen: RefreshedRow, answer: Answer, row: Row = seen.row, about?: string): Step<Answer> {
  const { expired } = seen
  const granted =
    seen.granted.length === 0 ? emptyList : seen.granted.filter((hold) => hold.attempt !== about)
  return { row, answer, granted, expired }
}

function findHold(row: Row, attempt: string): Hold | undefined {
  return row.holds.find((hold) => hold.attempt === attempt)
}

/** For `ttl` ms from now at least. */
function prolong(held: Hold, ttl: number, now: number): Hold {
  return { ...held, ttl: Math.max(held.ttl, ttl), expires: Math.max(held.expires, now + ttl) }
}

function swap(row: Row, old: Hold, hold: Hold): Row {
  return {
    ...row,
    holds: row.holds.length === 1 ? [hold] : row.holds.map((one) => (one === old ? hold : one)),
  }
}

function withoutHold(row: Row, hold: Hold, last: number | undefined): Row {
  const token = hold.mode.kind === 'exclusive' ? lastUsed(hold, last) : row.token
  const held = row.holds.length === 1 ? emptyList : row.holds.filter((one) => one !== hold)
  return createRow(row.name, token, held, row.queue, remember(row, hold.attempt))
}

/** The last token its process reports, clamped to the reserve: a mistake of a client must not move tokens back or far ahead. */
function lastUsed(hold: Hold, last = hold.upTo): number {
  return Math.min(Math.max(last, hold.token), hold.upTo)
}

function remember(row: Row, attempt: string): readonly string[] {
  if (row.ended.includes(attempt)) return row.ended
  return [attempt, ...row.ended.slice(0, maxEnded - 1)]
}
