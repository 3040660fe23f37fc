/** Granting: which modes fit beside the holds, who is granted next, and with which token. Internal to `table.ts`. */
import type { Mode, ModeKind } from '../../core/mode.js'
import { nextToken, tokenReserve } from '../../core/token.js'
import { withoutHead } from './queue.js'
import { type AcquireRequest, emptyList, type Hold, type QueueEntry, type Row } from './row.js'

/** A row brought up to date, and the changes that made. */
export interface RefreshedRow {
  readonly row: Row
  readonly granted: readonly Hold[]
  readonly expired: readonly Hold[]
}

/** May `asked` hold beside the present holders? `admits` of `core/mode.ts`, for a row. */
export function admits(row: Row, asked: Mode): boolean {
  return joins(computeLoad(row.holds), asked)
}

/** Drops overdue holds and grants what then fits. Returns the same row when nothing is overdue. */
export function refresh(row: Row, now: number, wall: number): RefreshedRow {
  if (!row.holds.some((hold) => hold.expires <= now)) return { row, granted: emptyList, expired: emptyList }
  const expired = row.holds.filter((hold) => hold.expires <= now)
  const holds =
    expired.length === row.holds.length ? emptyList : row.holds.filter((hold) => hold.expires > now)
  const admitted = grantFromHead({ ...row, holds }, now, wall)
  return { row: admitted.row, granted: admitted.granted, expired }
}

/** Grants the head of the queue for as long as it fits, all in one step. */
export function grantFromHead(row: Row, now: number, wall: number): { row: Row; granted: readonly Hold[] } {
  const head = row.queue[0]
  const load = computeLoad(row.holds)
  if (head === undefined || !joins(load, head.mode)) return { row, granted: emptyList }
  const granted: Hold[] = []
  let token = row.token
  for (const entry of row.queue) {
    if (!joins(load, entry.mode)) break
    const hold = mintHold(entry, token, now, wall)
    token = hold.upTo
    granted.push(hold)
    count(load, entry.mode)
  }
  const holds = row.holds.length === 0 ? granted : [...row.holds, ...granted]
  return { row: { ...row, token, holds, queue: withoutHead(row.queue, granted.length) }, granted }
}

/** Makes the hold for `ask` with the token after `last`. An exclusive hold includes its reserve of tokens. */
export function mintHold(
  request: AcquireRequest | QueueEntry,
  last: number,
  now: number,
  wall: number,
): Hold {
  const token = nextToken(last, wall)
  return {
    attempt: request.attempt,
    mode: request.mode,
    ttl: request.ttl,
    token,
    upTo: request.mode.kind === 'exclusive' ? token + tokenReserve : token,
    since: now,
    expires: now + request.ttl,
    note: request.note,
    client: request.client,
  }
}

/** A summary of the holds, computed once, so that granting a long queue is not quadratic. */
interface Load {
  kind: ModeKind | undefined
  taken: number
}

function computeLoad(held: readonly Hold[]): Load {
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
