/** The cell of a barrier: its round, who is inside, and when it opens and ends. Pure functions over plain data. */
import type { Cell } from '../core/cell.js'

/** The value of the cell, as JSON. */
export interface BarrierState {
  readonly parties: number
  readonly round: number
  readonly open: boolean
  /** Attempts. */
  readonly members: readonly string[]
}

/**
 * How long the store keeps the round of a barrier that everybody has left, in ms: a barrier made for a single task
 * leaves nothing behind.
 */
const emptyCellTtl = 86_400_000

export function parseBarrier(cell: Cell | undefined): BarrierState | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as BarrierState)
}

/** The change of the cell to `state`; undefined: it is that already. */
export function barrierChange(
  cell: Cell | undefined,
  state: BarrierState,
): { value: string; keep: number } | undefined {
  const value = JSON.stringify(state)
  const keep = state.members.length === 0 ? emptyCellTtl : Number.POSITIVE_INFINITY
  return value === cell?.value ? undefined : { value, keep }
}

/** The state with this participant in it, if it can enter; the last one to come opens the barrier. */
export function entered(state: BarrierState, attempt: string): BarrierState {
  const { parties, round, open, members } = state
  if (members.includes(attempt)) return { ...state, open: open || members.length >= parties }
  if (open && members.length > 0) return state
  const all = [...members, attempt]
  return { parties, round: open ? round + 1 : round, open: all.length >= parties, members: all }
}

/** The state without this participant; the last one to leave begins the next round. @param alive the members that have not died */
export function left(state: BarrierState, attempt: string, alive: readonly string[]): BarrierState {
  const members = alive.filter((one) => one !== attempt)
  const over = state.open && members.length === 0
  return { ...state, round: state.round + (over ? 1 : 0), open: state.open && !over, members }
}
