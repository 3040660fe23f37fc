/** The content of a cell's node. */
import type { CellChange } from '../../core/cell.js'
import { BackendError } from '../../core/errors.js'
import type { Runtime } from './runtime.js'
import type { Stat } from './session/protocol.js'

export interface CellNode {
  readonly stat: Stat
  readonly id: string
  /** Undefined: removed. */
  readonly value: string | undefined
  /** How long the cell is kept after its last write, in ms. */
  readonly keep: number
}

/** @returns the milliseconds until the cell ends; 0 or less: it ended or was removed that long ago */
export function timeLeft(runtime: Runtime, { stat, value, keep }: CellNode): number {
  if (value !== undefined && keep === Number.POSITIVE_INFINITY) return keep
  const since = (runtime.now() ?? stat.mtime) - stat.mtime
  // The leader's time comes from an answer and lags a moment; a cell removed just now counts as gone all the same.
  return value === undefined ? Math.min(0, -since) : keep - since
}

export function encodeCell({ id, value, ttl }: Omit<CellChange, 'ifVersion'>): Buffer {
  const kept = ttl === Number.POSITIVE_INFINITY ? {} : { keep: ttl }
  return Buffer.from(JSON.stringify({ id, ...kept, ...(value !== undefined && { value }) }))
}

/** @throws BackendError when another program has written there */
export function parseCell(data: Buffer, stat: Stat): CellNode {
  try {
    const { id, value, keep = Number.POSITIVE_INFINITY } = JSON.parse(data.toString())
    return { stat, id, value, keep }
  } catch (error) {
    throw new BackendError('zookeeper', 'another program has written into a cell; use another chroot', {
      cause: error,
    })
  }
}
