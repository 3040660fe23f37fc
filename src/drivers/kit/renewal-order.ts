/**
 * A copy of a request can arrive late: a client sends it again after a reconnection, a proxy holds it back. So a renewal says "at least",
 * and a copy of it ends nothing sooner than a later renewal has promised. Only one that may end the hold sooner says "exactly", with a
 * number: the store carries it out once, and not after one with a greater number. To any other it gives at least the time asked for.
 */
import { wallTime } from '../../core/clock.js'

let last = 0

/**
 * Greater than every number before it in this process, and, as far as clocks agree, than those of the process that the hold was taken
 * over from. Where they do not agree, a hold lasts longer than asked, never shorter.
 */
export function nextOrder(): number {
  last = Math.max(last + 1, Math.floor(wallTime()))
  return last
}

/**
 * Decides which renewals of one hold have a number: the first that asks for less time than an earlier request, and all after it. So the next
 * renewal also undoes a late copy of a longer request.
 */
export class RenewalOrder {
  /** The longest ttl that was asked for, in ms. */
  #longest: number
  #ordered = false

  constructor(ttl: number) {
    this.#longest = ttl
  }

  /** A renewal for `ttl` ms is about to be sent. @returns the number to send with it; undefined: "at least" does */
  sent(ttl: number): number | undefined {
    if (ttl < this.#longest) this.#ordered = true
    this.#longest = Math.max(this.#longest, ttl)
    return this.#ordered ? nextOrder() : undefined
  }
}
