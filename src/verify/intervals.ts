/**
 * The interval during which a client claims to hold a lock: from the moment `acquire` resolved until the earliest of
 * - the call of `release`,
 * - the notification of loss,
 * - a forced release by an operator,
 * - the last reported deadline (a renewal moves it; a process paused beyond it claims nothing),
 * - the death of the process.
 *
 * All times are the holder's, on one clock, so two overlapping claims are a violation without any allowance for clock skew or the network.
 */
import type { ModeKind } from './event.js'
import { groupBy } from './group-by.js'
import type { Acquisition, History } from './history.js'

export interface HoldInterval {
  /** Nanoseconds since the first event; the claim includes `from` and excludes `to`. */
  readonly from: number
  readonly to: number
  readonly mode: ModeKind
  readonly of: Acquisition
}

/** The end of a claim; Infinity if nothing in the history ends it. */
export function intervalEnd(acquisition: Acquisition): number {
  const { releasing, lost, forced, until, died } = acquisition
  const forever = Number.POSITIVE_INFINITY
  return Math.min(...[releasing, lost, forced, until, died].map((end) => end ?? forever))
}

const known = new WeakMap<History, ReadonlyMap<string, readonly HoldInterval[]>>()

/** The claims of every name, ordered by start. Omits claims that had ended before they were reported. */
export function intervalsByName(history: History): ReadonlyMap<string, readonly HoldInterval[]> {
  let names = known.get(history)
  if (names === undefined) {
    const sorted = groupBy(history.acquisitions.flatMap(toIntervals), (claim) => claim.of.name)
    for (const claims of sorted.values()) claims.sort((a, b) => a.from - b.from)
    names = sorted
    known.set(history, names)
  }
  return names
}

function toIntervals(of: Acquisition): HoldInterval[] {
  const { granted, mode, downgrading } = of
  if (granted === undefined) return []
  const to = intervalEnd(of)
  const split = downgrading === undefined ? to : Math.min(downgrading, to)
  const claims: HoldInterval[] = [{ from: granted, to: split, mode, of }]
  if (split < to) claims.push({ from: split, to, mode: 'shared', of })
  return claims.filter((claim) => claim.from < claim.to)
}
