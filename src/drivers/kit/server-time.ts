/**
 * What time it is at a store that tells its time only as the `Date` of its answers: whole seconds.
 *
 * Used for ages shown to people, never for a decision. The clock of this machine is taken as long as it agrees with what the
 * store said last, because it is finer; where the two differ, the store's counts.
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

  /** An answer to what left at `sent` came now, dated `date`. */
  heard(date: string | string[] | undefined, sent: number): void {
    const second = typeof date === 'string' ? Date.parse(date) : Number.NaN
    if (Number.isNaN(second)) return
    // Between sending and now it was some moment of that second there.
    this.#from = second - this.#clock.now()
    this.#upTo = second + 1000 - sent
  }

  /** Milliseconds since 1970, by the store. */
  now(): number {
    const passed = this.#clock.now()
    return Math.round(Math.min(Math.max(this.#wall(), this.#from + passed), this.#upTo + passed))
  }
}
