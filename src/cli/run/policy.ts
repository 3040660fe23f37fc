/**
 * When a command must end, as pure decisions: the lock process decides again after every renewal and at every deadline.
 *
 * ```
 *   granted / renewed                                                          cannot be proven any more
 *      ├──────────────────────────────┬───────── killAfter ─────────┬── margin ──┤
 *      held                           TERM                          KILL         group gone, lock grantable to others
 * ```
 * A successful renewal moves all of it to the right. TERM comes late enough for the lease's watchdog to try three times, so a short outage
 * of the store ends nothing.
 */
import { formatDuration } from '../duration.js'
import { badInput } from '../exit.js'
import type { RunLimits, StopCause } from './messages.js'

/** A shorter lease leaves no time to stop a command between doubt and loss. */
export const minTtl = 1000
/** The same, as measured. */
const minLease = 800
const defaultTtl = 30_000
const defaultKillAfter = 5000

/** Requested on the command line, in ms; undefined: not given. */
export interface RequestedLimits {
  readonly ttl: number | undefined
  readonly killAfter: number | undefined
  readonly minHold: number | undefined
  readonly maxHold: number | undefined
}

/** @throws CliError if the parts do not fit together. */
export function resolveLimits({
  ttl = defaultTtl,
  killAfter,
  minHold = 0,
  maxHold = Number.POSITIVE_INFINITY,
}: RequestedLimits): RunLimits {
  const margin = marginFor(ttl)
  const most = Math.floor(ttl / 3) - margin
  if (killAfter !== undefined && killAfter > most) {
    const needed = 3 * (killAfter + margin)
    throw badInput(
      `--kill-after ${formatDuration(killAfter)} does not fit into --ttl ${formatDuration(ttl)}: the command must be gone before the lease is; ` +
        `use at most ${formatDuration(most)}, or --ttl ${formatDuration(Math.ceil(needed / 1000) * 1000)}`,
    )
  }
  if (minHold > maxHold) {
    throw badInput(
      `--min-hold ${formatDuration(minHold)} is longer than --max-hold ${formatDuration(maxHold)}; make it shorter`,
    )
  }
  return { ttl, killAfter: killAfter ?? Math.min(defaultKillAfter, most), margin, minHold, maxHold }
}

/** A lease just granted or renewed has this share of its ttl left, unless the store gives less. */
export const minLeaseShare = 0.9

const marginFor = (ttl: number) => Math.min(1000, Math.max(150, Math.round(ttl / 20)))

/**
 * The terms that the granted lease can keep: stores may give less than `--ttl` (a ZooKeeper session). A value not given on the command line
 * is cut. A given one is refused, unless there is still time to renew: `real` is measured, and so a little less than the ttl.
 * @param real ms from a renewal to the end of the lease
 * @param remedy how to get a longer lease from the store
 * @throws CliError before the command starts
 */
export function limitsWithin(
  terms: RunLimits,
  real: number,
  killAfterAsked: boolean,
  remedy: string,
): RunLimits {
  if (real >= minLeaseShare * terms.ttl) return terms
  const ttl = Math.floor(real)
  const had = formatDuration(ttl)
  if (ttl < minLease) {
    throw badInput(`the store grants leases of ${had} only, too short to end a command in time; ${remedy}`)
  }
  const margin = marginFor(ttl)
  const most = Math.floor(ttl / 3) - margin
  const { killAfter } = terms
  if (!killAfterAsked) return { ...terms, ttl, margin, killAfter: Math.min(killAfter, most) }
  if (killAfter + margin <= ttl / 2) return { ...terms, ttl, margin }
  throw badInput(
    `--kill-after ${formatDuration(killAfter)} does not fit into the ${had} for which the store grants a lease: the command must be gone before the lease is; ` +
      `use at most ${formatDuration(most)}, or ${remedy}`,
  )
}

export interface Situation {
  /** Ms for which the lease is proven. */
  readonly remaining: number
  /** Ms since the command was started. */
  readonly held: number
  /** Ms since TERM was sent, if it was. */
  readonly stopping: number | undefined
}

export interface Decision {
  readonly signal: 'SIGTERM' | 'SIGKILL' | undefined
  /** Only with TERM, or with a KILL that was not preceded by TERM. */
  readonly why: Exclude<StopCause, 'supervisor-gone'>
  /** Ms until the next decision, if nothing changes before. */
  readonly again: number
}

export function decide(
  { killAfter, margin, maxHold }: RunLimits,
  { remaining, held, stopping }: Situation,
): Decision {
  const why = remaining <= killAfter + margin ? 'lost' : 'max-hold'
  if (remaining <= margin) return { signal: 'SIGKILL', why: 'lost', again: 0 }
  if (stopping !== undefined) {
    const left = Math.min(killAfter - stopping, remaining - margin)
    return { signal: left <= 0 ? 'SIGKILL' : undefined, why, again: Math.max(0, left) }
  }
  const left = Math.min(remaining - killAfter - margin, maxHold - held)
  return { signal: left <= 0 ? 'SIGTERM' : undefined, why, again: Math.max(0, left) }
}

/**
 * When the supervisor ends the command in the lock process's place. At `killAfter + margin` before the end, the lock process has either renewed or reported
 * that it is stopping the command. If it has reported nothing half of `killAfter` later, it does not react, and there is still time. If it
 * has reported a stop, the command has its time until KILL, and the supervisor acts only if the lock process fails to.
 */
export function deadmanAt({ killAfter, margin }: RunLimits, heldUntil: number, stopping: boolean): number {
  return heldUntil - (stopping ? margin / 2 : margin + killAfter / 2)
}
