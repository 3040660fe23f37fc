/** Hand-overs between processes, from each process's record of its turns. */
import type { Locks } from 'holdfast'
import { stamp } from './stamp.js'

/** One turn of one process with the lock. All times are `stamp()`. */
export interface Turn {
  /** 0: no tokens. */
  readonly token: number
  /** When it was notified that it is queued; Infinity if it never was. */
  readonly waitingSince: number
  readonly granted: number
  /** When it called release. */
  readonly released: number
  /** Had the holder seen a waiter before it called release? Absent: it did not check. */
  readonly awaited?: boolean
}

/** Simulates a working holder: busy, so that no core goes to sleep, and long enough for the other process to be queued again. */
export function spin(ms = 0.3): void {
  const end = stamp() + ms
  while (stamp() < end);
}

/** Maximum time for another process to be queued again on a busy machine, in ms. */
const timeout = 10_000

/** A hand-over needs a waiter. At its last turn a process does not know whether any other has turns left, and gives up soon. */
export async function somebodyWaits(
  locks: Pick<Locks, 'inspect'>,
  name: string,
  isLast: boolean,
): Promise<boolean> {
  const end = isLast ? 0 : stamp() + timeout
  for (let looks = 0; looks < 50 || stamp() < end; looks++) {
    if ((await locks.inspect(name)).waiters.length > 0) return true
  }
  return false
}

/**
 * Milliseconds from each call of release to the next grant, if the next holder was queued by then.
 * @throws Error if two processes held at once, or a token did not grow
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
