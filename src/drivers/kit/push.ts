/**
 * Two decisions of a waiter to whom a store pushes its grant, without I/O: may a push be believed, and when to look again.
 *
 * A push says how long after the server's reading of request n the lock was granted, so its claim ends no sooner than
 * `sent(n) + age + claim`. The pair must be exact: a newer `sent` with an older reading would promise too much. And the
 * server's clock must not have been set forward in between: then age exceeds the time that has passed here, or, where a
 * delay hides that, the push is late. What fails either test is confirmed by asking once more.
 */
import { deadline } from '../../core/clock.js'

/** A waiter that can be reached says again that it is there about so often, in ms; this re-anchors its deadlines too. */
const safetyPoll = 5_000
/** How long a store thinks a waiter alive after it has asked, in ms: longer than until it asks again. */
export const aliveFor: { readonly reachable: number; readonly polling: number } = {
  reachable: 2.4 * safetyPoll,
  polling: 2_000,
}
/** Pauses of the first in line where nothing can be pushed, in ms. */
const pollPauses = [5, 10, 20, 50, 100]
/** How late a push may be and still be believed, in ms. */
const latestPush = 50

/** The last moment of a pushed claim, counted from `sent`; undefined: not proven, or hardly anything is left of it. */
export function provenUntil(sent: number, age: number, claim: number, now: number): number | undefined {
  const slack = now - sent - age
  // A thousandth: clocks run differently fast, but not that much; the deadline itself allows for more.
  if (slack < -1 - age / 1000 || slack > Math.min(latestPush, claim / 4)) return undefined
  const until = deadline(sent, age + claim)
  return until - now > claim / 4 ? until : undefined
}

/**
 * Milliseconds until it is worth asking again. `place` 1 is next in line; `left`: until the hold runs out, or the place
 * before is given up; `told`: will the grant be pushed? `polls`: how often it has polled. `chance` in [0, 1).
 *
 * Where it is told, the first in line looks when the hold has run out, and the others a little later each, in case
 * the first is gone. Where it is not, those further back look less often.
 */
export function nextLook(place: number, left: number, told: boolean, polls: number, chance: number): number {
  const rank = Math.max(0, place - 1)
  const jitter = 0.8 + chance * 0.4
  if (told) return Math.min(Math.max(left, 0) + 5 + Math.min(rank, 50) * 100, safetyPoll * jitter)
  if (rank > 0) return Math.min(300, 50 * (rank + 1)) * jitter
  return (pollPauses[Math.min(polls, pollPauses.length - 1)] ?? 100) * jitter
}
