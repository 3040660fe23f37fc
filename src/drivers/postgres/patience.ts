/**
 * Two decisions of a waiter, without I/O: may a push be believed, and when to look again.
 *
 * A push says how long after the server's reading of request n the lock was granted, so its claim ends no sooner than
 * `sent(n) + age + claim`, provided the server's clock was not set forward in between. Then the age is greater than the
 * time that has passed here, and the push is not believed: one more statement tells.
 */
import { deadline } from '../../core/clock.js'

/** A waiter that can be reached says again that it is there about so often, in ms. */
export const safetyPoll = 5_000
/** How long a waiter is thought alive after it has asked, in ms: longer than until it asks again. */
export const aliveFor: { readonly reachable: number; readonly polling: number } = {
  reachable: 12_000,
  polling: 2_000,
}
/** Pauses of the first in line where nothing can be pushed, in ms. */
const pollPauses = [5, 10, 20, 50, 100]
/** How late a push may be and still be believed, in ms. */
const latestPush = 50

/** The last moment of a pushed claim, counted from `sent`; undefined: not proven, or hardly anything is left of it. */
export function provenUntil(sent: number, age: number, claim: number, now: number): number | undefined {
  const slack = now - sent - age
  if (slack < -1 - age / 1000 || slack > Math.min(latestPush, claim / 4)) return undefined
  const until = deadline(sent, age + claim)
  return until - now > claim / 4 ? until : undefined
}

/**
 * Milliseconds until it is worth asking again. `place` 1 is next in line; `left`: until the hold runs out or the place before
 * is given up; `told`: will the grant be pushed? `polls`: how often it has polled. `chance` in [0, 1).
 */
export function nextLook(place: number, left: number, told: boolean, polls: number, chance: number): number {
  const rank = Math.max(0, place - 1)
  const jitter = 0.8 + chance * 0.4
  if (told) return Math.min(Math.max(left, 0) + 5 + Math.min(rank, 50) * 100, safetyPoll * jitter)
  if (rank > 0) return Math.min(300, 50 * (rank + 1)) * jitter
  return (pollPauses[Math.min(polls, pollPauses.length - 1)] ?? 100) * jitter
}
