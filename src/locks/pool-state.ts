/** The cell of a pool: its size, its queue, and who is granted permits next. Pure functions over plain data. */
import type { Cell } from '../core/cell.js'
import { describe } from '../core/name.js'

export interface PoolEntry {
  readonly attempt: string
  readonly take: number
  /** Its permits are granted; otherwise it waits. */
  readonly in: boolean
}

/** The value of the cell, as JSON. */
export interface PoolState {
  readonly size: number
  /** Holders and waiters, in the order in which they came. */
  readonly line: readonly PoolEntry[]
  readonly closed?: true
}

export function parsePool(cell: Cell | undefined): PoolState | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as PoolState)
}

/** The holders of a closed pool; undefined: it is open. */
export function holdersOfClosed(cell: Cell | undefined): readonly PoolEntry[] | undefined {
  const state = parsePool(cell)
  return state?.closed === true ? state.line.filter((entry) => entry.in) : undefined
}

export function findEntry(state: PoolState | undefined, attempt: string): PoolEntry | undefined {
  return state?.line.find((entry) => entry.attempt === attempt)
}

/**
 * The state with this request in its queue. A single attempt (`once`) is added only if it is granted at once, and
 * nothing is added to a closed pool: undefined.
 */
export function withRequest(
  state: PoolState,
  attempt: string,
  take: number,
  once: boolean,
): PoolState | undefined {
  if (findEntry(state, attempt) !== undefined) return state
  const next = { ...state, line: [...state.line, { attempt, take, in: false }] }
  const stays = state.closed !== true && (!once || findEntry(grantFromHead(next), attempt)?.in === true)
  return stays ? next : undefined
}

export function withoutEntry(state: PoolState, attempt: string): PoolState {
  return { ...state, line: state.line.filter((entry) => entry.attempt !== attempt) }
}

/** Grants from the head of the queue for as long as requests fit; none overtakes one that does not. */
export function grantFromHead(state: PoolState): PoolState {
  const { size, line } = state
  let left = size
  for (const entry of line) if (entry.in) left -= entry.take
  let open = state.closed !== true
  const next = line.map((entry) => {
    if (entry.in) return entry
    open = open && entry.take <= left
    if (open) left -= entry.take
    return open ? { ...entry, in: true } : entry
  })
  return { ...state, line: next }
}

const maxPermits = 1_000_000

/** @throws TypeError, RangeError for anything but a possible number of permits */
export function checkPermits(what: string, value: unknown): void {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < 1 || value > maxPermits)
    throw new RangeError(`${what} must be an integer from 1 to ${maxPermits}, got ${value}`)
}
