/** Hand-overs between processes, from what each of them noted about its own turns. */
import type { Locks } from 'holdfast'
import { stamp } from './stamp.js'

/** One process had it once. All times are `stamp()`. */
export interface Turn {
  /** 0: there are none. */
  readonly token: number
  /** When it heard that it stands in line; Infinity if it never had to. */
  readonly waitingSince: number
  readonly granted: number
  /** When it called release. */
  readonly released: number
  /** Had the holder seen, before it called release, that somebody stood in line? Absent: it did not look. */
  readonly awaited?: boolean
}

/** A holder at work: busy, so that no core falls asleep, and long enough for the other to be back in line. */
export function spin(ms = 0.3): void {
  const end = stamp() + ms
  while (stamp() < end);
}

/** What another process may take to come back into line on a busy machine, in ms. */
const patience = 10_000

/** A hand-over needs somebody in line. At its last turn a process does not know whether somebody is left, and gives up soon. */
export async function somebodyWaits(
  locks: Pick<Locks, 'inspect'>,
  name: string,
  isLast: boolean,
): Promise<boolean> {
  const end = isLast ? 0 : stamp() + patience
  for (let looks = 0; looks < 50 || stamp() < end; looks++) {
    if ((await locks.inspect(name)).waiters.length > 0) return true
  }
  return false
}

/**
 * Milliseconds from each call of release to the next grant, where the next holder stood in line already.
 * @throws Error when two held at once, or a token did not grow
 */
export function gaps(turns: readonly Turn[]): number[] {
  const inOrder = turns.toSorted((a, b) => a.granted - b.granted)
  const found: number[] = []
  for (const [place, turn] of inOrder.entries()) {
    const before = inOrder[place - 1]
    if (before === undefined) continue
    if (turn.granted < before.released)
      throw new Error(`tokens ${before.token} and ${turn.token} were held at once`)
    if (turn.token > 0 && turn.token <= before.token)
      throw new Error(`token ${turn.token} came after ${before.token}`)
    if (before.awaited ?? turn.waitingSince < before.released) found.push(turn.granted - before.released)
  }
  return found
}
