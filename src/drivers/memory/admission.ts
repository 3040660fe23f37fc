/** Granting: which modes fit beside the holds, who is granted next, and with which token. Internal to `table.ts`. */
import type { Mode, ModeKind } from '../../core/mode.js'
import { nextToken, tokenReserve } from '../../core/token.js'
import { withoutHead } from './queue.js'
import { type Ask, type Hold, none, type Place, type Row } from './row.js'

/** A row brought up to date, and the changes that made. */
export interface Look {
  readonly row: Row
  readonly granted: readonly Hold[]
  readonly expired: readonly Hold[]
}

/** May `asked` hold beside the present holders? `admits` of `core/mode.ts`, for a row. */
export function fits(row: Row, asked: Mode): boolean {
  return joins(loadOf(row.held), asked)
}

/** Drops overdue holds and grants what then fits. Returns the same row when nothing is overdue. */
export function look(row: Row, now: number, wall: number): Look {
  if (!row.held.some((hold) => hold.expires <= now)) return { row, granted: none, expired: none }
  const expired = row.held.filter((hold) => hold.expires <= now)
  const held = expired.length === row.held.length ? none : row.held.filter((hold) => hold.expires > now)
  const admitted = admit({ ...row, held }, now, wall)
  return { row: admitted.row, granted: admitted.granted, expired }
}

/** Grants the head of the queue for as long as it fits, all in one step. */
export function admit(row: Row, now: number, wall: number): { row: Row; granted: readonly Hold[] } {
  const head = row.line[0]
  const load = loadOf(row.held)
  if (head === undefined || !joins(load, head.mode)) return { row, granted: none }
  const granted: Hold[] = []
  let token = row.token
  for (const place of row.line) {
    if (!joins(load, place.mode)) break
    const hold = mint(place, token, now, wall)
    token = hold.upTo
    granted.push(hold)
    count(load, place.mode)
  }
  const held = row.held.length === 0 ? granted : [...row.held, ...granted]
  return { row: { ...row, token, held, line: withoutHead(row.line, granted.length) }, granted }
}

/** Makes the hold for `ask` with the token after `last`. An exclusive hold includes its reserve of tokens. */
export function mint(ask: Ask | Place, last: number, now: number, wall: number): Hold {
  const token = nextToken(last, wall)
  return {
    attempt: ask.attempt,
    mode: ask.mode,
    ttl: ask.ttl,
    token,
    upTo: ask.mode.kind === 'exclusive' ? token + tokenReserve : token,
    since: now,
    expires: now + ask.ttl,
    note: ask.note,
    by: ask.by,
  }
}

/** A summary of the holds, computed once, so that granting a long queue is not quadratic. */
interface Load {
  kind: ModeKind | undefined
  taken: number
}

function loadOf(held: readonly Hold[]): Load {
  const load: Load = { kind: undefined, taken: 0 }
  for (const hold of held) count(load, hold.mode)
  return load
}

function count(load: Load, mode: Mode): void {
  load.kind = mode.kind
  if (mode.kind === 'permits') load.taken += mode.take
}

function joins(load: Load, asked: Mode): boolean {
  if (load.kind === undefined) return true
  if (asked.kind === 'exclusive' || asked.kind !== load.kind) return false
  return asked.kind === 'shared' || load.taken + asked.take <= asked.of
}
