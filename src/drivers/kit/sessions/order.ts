/**
 * Computes the holders from the order of the queue alone. An entry holds when its mode is compatible with every entry ahead of it,
 * and no entry overtakes. So a holder holds for as long as its entry exists, and every entry ahead of a holder holds, too.
 *
 * The first entry of a semaphore decides its limit. A request with another limit is refused as soon as it has read the queue.
 * Until its entry is gone, the entries behind it wait: their limit is right, and they are not refused with it.
 */
import { admits, type Mode } from '../../../core/mode.js'

export interface QueueEntry {
  readonly mode: Mode
}

export function isGranted(ahead: readonly QueueEntry[], mode: Mode): boolean {
  if (ahead.some((entry) => limitsDiffer(entry.mode, mode))) return false
  return admits(
    ahead.map((entry) => entry.mode),
    mode,
  )
}

/** Are these two different limits of one semaphore? */
export function limitsDiffer(one: Mode, other: Mode): boolean {
  return one.kind === 'permits' && other.kind === 'permits' && one.of !== other.of
}

/** The number of holders: the length of the longest prefix of the queue in which each entry is compatible with those ahead of it. */
export function grantedCount(queue: readonly QueueEntry[]): number {
  let n = 0
  for (const { mode } of queue) {
    if (!isGranted(queue.slice(0, n), mode)) break
    n++
  }
  return n
}

/** The limit with which a semaphore of this name is in use, if it differs from `mode`'s. */
export function conflictingLimit(ahead: readonly QueueEntry[], mode: Mode): number | undefined {
  if (mode.kind !== 'permits') return undefined
  const first = ahead.find((entry) => entry.mode.kind === 'permits')?.mode
  return first?.kind === 'permits' && first.of !== mode.of ? first.of : undefined
}

/**
 * The one entry to wait for: while it exists, nothing else that happens can help. Undefined for permits behind permits: any of
 * those may make room.
 */
export function findBlocker<P extends QueueEntry>(ahead: readonly P[], mode: Mode): P | undefined {
  if (mode.kind === 'exclusive') return ahead.at(-1)
  return ahead.findLast((entry) => entry.mode.kind !== mode.kind || limitsDiffer(entry.mode, mode))
}
