/** What a leader publishes in the cell of its election. */
import type { Cell } from '../core/cell.js'

/** The leader, as everybody sees it. */
export interface Leader {
  /** The value that the leader proclaimed last. */
  readonly value: string
  /** The token of its lease: grows with every term. */
  readonly token: number
  /** The name it campaigned under. */
  readonly candidate: string
  /** Its process: `host:pid`. */
  readonly client: string
}

/** The value of the cell, as JSON. */
export interface LeaderRecord extends Omit<Leader, 'client'> {
  /** {@link Leader.client}. */
  readonly by: string
  /** Its hold in the store, which shows whether it still leads. */
  readonly attempt: string
  /** The successor. */
  readonly next?: string
}

export function parseLeaderRecord(cell: Cell | undefined): LeaderRecord | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as LeaderRecord)
}
