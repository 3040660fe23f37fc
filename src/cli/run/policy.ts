/**
 * When a command must end, as pure decisions: the keeper asks again after every renewal and whenever a moment has come.
 *
 * ```
 *   granted / renewed                                                          cannot be proven any more
 *      ├──────────────────────────────┬───────── killAfter ─────────┬── margin ──┤
 *      held                           TERM                          KILL         group gone, lock grantable to others
 * ```
 * A renewal that succeeds moves all of it to the right. The TERM leaves the watchdog of the lease its three tries, so a
 * short outage of the store ends nothing.
 */
import { formatDuration } from '../duration.js'
import { badInput } from '../exit.js'
import type { StopCause, Terms } from './messages.js'

/** Shorter leases leave no time to stop a command between doubt and loss. */
export const leastTtl = 1000
const usualTtl = 30_000
const usualKillAfter = 5000

/** What was asked for on the command line, in ms; undefined where nothing was. */
export interface AskedTerms {
  readonly ttl: number | undefined
  readonly killAfter: number | undefined
  readonly minHold: number | undefined
  readonly maxHold: number | undefined
}

/** @throws CliError when the parts do not fit into each other. */
export function termsOf({
  ttl = usualTtl,
  killAfter,
  minHold = 0,
  maxHold = Number.POSITIVE_INFINITY,
}: AskedTerms): Terms {
  const margin = Math.min(1000, Math.max(150, Math.round(ttl / 20)))
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
  return { ttl, killAfter: killAfter ?? Math.min(usualKillAfter, most), margin, minHold, maxHold }
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
  /** Only with TERM, or with a KILL that comes without one. */
  readonly why: Exclude<StopCause, 'front-gone'>
  /** Ms until the next decision, if nothing changes before. */
  readonly again: number
}

export function decide(
  { killAfter, margin, maxHold }: Terms,
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
 * When the front ends the command in the keeper's place. At `killAfter + margin` before the end the keeper has either renewed or said that it
 * stops the command. If it has said nothing by half of `killAfter` later it does not react, and there is still time. If it has said so, the
 * command has its time until KILL, and the front only makes sure of that.
 */
export function understudyAt({ killAfter, margin }: Terms, heldUntil: number, stopping: boolean): number {
  return heldUntil - (stopping ? margin / 2 : margin + killAfter / 2)
}
