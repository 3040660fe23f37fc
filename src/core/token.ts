/**
 * The fencing token: a safe integer that grows with every grant of a name.
 *
 * A bare counter starts again at 1 when the store loses it. So a new token is the greater of "last + 1" and the
 * store's wall clock in microseconds: a flush, fail-over or restored backup repeats a token only if the new clock is
 * behind the old one by more than the time between the two grants. Exact in a JavaScript number until 2255.
 */
export function nextToken(last: number, storeWallMs: number): number {
  return Math.max(last + 1, Math.floor(storeWallMs * 1000))
}

/** How many tokens an exclusive grant reserves for local hand-overs. A release returns the unused ones. */
export const tokenReserve = 65_536
