/** What a leader publishes in the cell of its election. */
import { type Cell, maxCellBytes } from '../core/cell.js'
import { checkName, describe } from '../core/name.js'

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

const maxCandidateBytes = 128
/** Bytes of the record beside the value, of which the names of leader and successor take most. */
const rest = 1_024

/** @throws TypeError, RangeError */
export function checkCandidate(candidate: unknown): string {
  const name = checkName(candidate, 'candidate')
  const bytes = Buffer.byteLength(name)
  if (bytes <= maxCandidateBytes) return name
  throw new RangeError(`candidate is ${bytes} bytes long; the limit is ${maxCandidateBytes}`)
}

/** Before anything is asked of the store: a candidate may wait for days, and a leader must be able to name a successor. @throws TypeError, RangeError */
export function checkValue(value: unknown): void {
  if (typeof value !== 'string') throw new TypeError(`value must be a string, got ${describe(value)}`)
  const bytes = Buffer.byteLength(JSON.stringify(value))
  const limit = maxCellBytes - rest
  if (bytes <= limit) return
  throw new RangeError(
    `value is ${bytes} bytes long as JSON; the limit is ${limit}, store it elsewhere and keep a reference here`,
  )
}

export function parseLeaderRecord(cell: Cell | undefined): LeaderRecord | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as LeaderRecord)
}
