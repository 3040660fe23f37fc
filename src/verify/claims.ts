/**
 * When somebody claims to hold a lock: from the moment `acquire` resolved until the earliest of
 * - the call of `release`,
 * - the notice of loss,
 * - the last deadline that was told (a renewal moves it; whoever is paused longer than that claims nothing),
 * - the death of the process.
 *
 * Everything is seen from the holder's side and on one clock, so two overlapping claims are a violation without any
 * allowance for skew or for the network.
 */
import type { ModeKind } from './event.js'
import { type Acquisition, groupBy, type History } from './history.js'

export interface Claim {
  /** Nanoseconds since the first event; the claim includes `from` and excludes `to`. */
  readonly from: number
  readonly to: number
  readonly mode: ModeKind
  readonly of: Acquisition
}

/** The end of a claim; Infinity when nothing in the history ends it. */
export function claimEnd(acquisition: Acquisition): number {
  const { releasing, lost, until, died } = acquisition
  const forever = Number.POSITIVE_INFINITY
  return Math.min(releasing ?? forever, lost ?? forever, until ?? forever, died ?? forever)
}

const known = new WeakMap<History, ReadonlyMap<string, readonly Claim[]>>()

/** The claims of every name, each in order of beginning. Those that were over before they were told are left out. */
export function claimsByName(history: History): ReadonlyMap<string, readonly Claim[]> {
  let names = known.get(history)
  if (names === undefined) {
    const sorted = groupBy(history.acquisitions.flatMap(claimsOf), (claim) => claim.of.name)
    for (const claims of sorted.values()) claims.sort((a, b) => a.from - b.from)
    names = sorted
    known.set(history, names)
  }
  return names
}

function claimsOf(of: Acquisition): Claim[] {
  const { granted, mode, downgrading } = of
  if (granted === undefined) return []
  const to = claimEnd(of)
  const split = downgrading === undefined ? to : Math.min(downgrading, to)
  const claims: Claim[] = [{ from: granted, to: split, mode, of }]
  if (split < to) claims.push({ from: split, to, mode: 'shared', of })
  return claims.filter((claim) => claim.from < claim.to)
}
