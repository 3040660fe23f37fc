/**
 * When a waiter polls next, without I/O.
 *
 * MySQL cannot notify anybody that a row has changed. So the first waiter in the queue polls often, and the others about when their turn
 * could come: their number times what a turn has taken so far.
 */

/** Pauses of the first waiter in the queue, in ms. */
const firstPauses = [5, 10, 20, 50]
/** The longest pause of the other waiters, in ms. */
const maxPause = 300
/** How long a turn is presumed to take, in ms, before one was observed. */
const defaultTurnTime = 50

export interface Progress {
  readonly at: number
  readonly ahead: number
}

/** How long one turn takes, judged by two looks; undefined: the queue has not moved. */
export function turnTime(before: Progress, after: Progress): number | undefined {
  const moved = before.ahead - after.ahead
  return moved > 0 ? (after.at - before.at) / moved : undefined
}

/**
 * Milliseconds until it is worth polling again.
 * @param ahead how many waiters are ahead
 * @param polls how often the waiter has polled as the first in the queue
 * @param left ms until the blocking hold expires
 * @param turn how long a turn takes, in ms; undefined: not known
 * @param chance in [0, 1)
 */
export function nextPollIn(
  ahead: number,
  polls: number,
  left: number,
  turn: number | undefined,
  chance: number,
): number {
  const jitter = 0.8 + chance * 0.4
  if (ahead === 0) {
    const pause = (firstPauses[Math.min(polls, firstPauses.length - 1)] ?? 50) * jitter
    return Math.max(1, Math.min(pause, left + 1))
  }
  return Math.min(
    Math.max(5, (turn ?? defaultTurnTime) * (turn === undefined ? ahead + 1 : ahead) * jitter),
    maxPause,
  )
}
