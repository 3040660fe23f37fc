/** Computes, without I/O, when a waiter polls next in a store that notifies it of its turn. A notification is a hint: see `hints.ts`. */

/** How often a reachable waiter confirms that it is alive, in ms, roughly. */
export const safetyPoll = 5_000
/** How long a store considers a waiter alive after a request, in ms: longer than until its next request. */
export const livenessWindow: { readonly reachable: number; readonly polling: number } = {
  reachable: 2.4 * safetyPoll,
  polling: 2_000,
}
/** Polling intervals of the first waiter in the queue where nothing can be pushed, in ms. */
const pollPauses = [5, 10, 20, 50, 100]
/**
 * Milliseconds until the next poll is worthwhile. `position`: queue position, 1 is next; `left`: ms until the hold expires or the
 * entry ahead is dropped; `pushed`: will the grant be pushed? `polls`: polls so far; `chance` in [0, 1).
 *
 * With push, the first waiter polls when the hold has expired, and each further one a little later, in case the first is gone.
 * Without push, waiters further back poll less often.
 */
export function nextPollIn(
  position: number,
  left: number,
  pushed: boolean,
  polls: number,
  chance: number,
): number {
  const rank = Math.max(0, position - 1)
  const jitter = 0.8 + chance * 0.4
  if (pushed) return Math.min(Math.max(left, 0) + 5 + Math.min(rank, 50) * 100, safetyPoll * jitter)
  if (rank > 0) return Math.min(300, 50 * (rank + 1)) * jitter
  return (pollPauses[Math.min(polls, pollPauses.length - 1)] ?? 100) * jitter
}
