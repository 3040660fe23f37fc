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

/** Decides for the renewals of one hold which of them may end it sooner. */
export class RenewalOrder {
  /** The longest ttl that the store may have carried out last, in ms. */
  #ttl: number
  /** How many were asked for. */
  #asked = 0

  constructor(ttl: number) {
    this.#ttl = ttl
  }

  /** A renewal for `ttl` ms leaves. The number to send with it; undefined: "at least" does. */
  sent(ttl: number): { readonly order: number | undefined; readonly at: number } {
    this.#asked++
    const order = ttl < this.#ttl ? nextOrder() : undefined
    if (order === undefined) this.#ttl = ttl
    return { order, at: this.#asked }
  }

  /** It was carried out. @param at as `sent` returned it */
  answered(ttl: number, at: number): void {
    if (at === this.#asked) this.#ttl = ttl
  }
}
