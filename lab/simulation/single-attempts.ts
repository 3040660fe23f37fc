/**
 * Reasons for "not free" that the checker of `holdfast/verify` does not know. It takes a single attempt that ended without the lock for one
 * that never had it and never queued, because otherwise two attempts that refuse each other for ever would explain each other.
 *
 * - The attempt's process was stopped meanwhile: its own time was over before it could ask again.
 * - Another single attempt was under way whose process was stopped: the store may have granted it, and nobody read the reply.
 * - Another single attempt had met a cached lock, so it stood in the queue for a few ms: see `caching.ts`.
 */
import type { Acquisition, History } from 'holdfast/verify'
import { queuedForCache } from './caching.js'

export function isRefusalExplained(one: Acquisition, history: History): boolean {
  if (wasStopped(one, history)) return true
  const others = history.acquisitions.filter(
    (other) => other !== one && other.name === one.name && other.wait === 0 && overlap(one, other),
  )
  return others.some((other) => wasStopped(other, history) || queuedForCache(other, history.acquisitions))
}

const endOf = ({ failed = Number.POSITIVE_INFINITY }: Acquisition) => failed

function overlap(one: Acquisition, other: Acquisition): boolean {
  return one.invoked <= endOf(other) && other.invoked <= endOf(one)
}

/** A stall of its process, or a sleep of its machine, began or ended during the attempt. */
function wasStopped(one: Acquisition, { events }: History): boolean {
  return events.some(
    ({ op, kind, target, t }) =>
      op === 'fault' &&
      (kind === 'stall' || kind === 'sleep') &&
      target === one.pid &&
      one.invoked <= t &&
      t <= endOf(one),
  )
}
