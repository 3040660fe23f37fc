/**
 * The clock of a store that reports its time only in the `Date` header of its answers: whole seconds.
 *
 * Used for ages shown to people, never for a decision. The local wall clock is used while it agrees with the store's last answer,
 * because it is finer; where the two differ, the store's time counts.
 */
import type { Clock } from '../../core/clock.js'

export class ServerTime {
  readonly #clock: Clock
  readonly #wall: () => number
  #from = 0
  #upTo = Number.POSITIVE_INFINITY

  constructor(clock: Clock, wall: () => number = Date.now) {
    this.#clock = clock
    this.#wall = wall
  }

  /** An answer dated `date` arrived now, to a request that left at `sent`. */
  update(date: string | string[] | undefined, sent: number): void {
    const second = typeof date === 'string' ? Date.parse(date) : Number.NaN
    if (Number.isNaN(second)) return
    // At some moment between `sent` and now, the store's clock was within that second.
    this.#from = second - this.#clock.now()
    this.#upTo = second + 1000 - sent
  }

  /** Milliseconds since 1970, by the store's clock. */
  now(): number {
    const passed = this.#clock.now()
    return Math.round(Math.min(Math.max(this.#wall(), this.#from + passed), this.#upTo + passed))
  }
}
