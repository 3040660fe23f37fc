/**
 * How often one grant is handed over inside the process. While others wait in the store's queue such hand-overs are
 * bounded, so that a busy process cannot keep them out; then the grant goes back.
 */
import type { Clock } from './clock.js'
import type { Grant } from './driver.js'

/** Hand-overs of one grant while others wait in the store. */
export const maxContendedHandoffs = 16
/** Milliseconds of hand-overs while others wait in the store. */
export const maxContendedHandoffTime = 50

/**
 * Milliseconds of hand-overs without a turn of the event loop: sections without I/O would otherwise hold back timers
 * and the notification that another process waits.
 */
export const maxSynchronousTime = 5

/** Counts the hand-overs of one grant from the moment that others are known to wait. */
export class HandoffLimit {
  readonly #clock: Clock
  #handoffs = 0
  #contendedSince: number | undefined
  /** Clock reading of the first hand-over since the event loop turned. */
  #sliceStartedAt: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A new grant came from the store. */
  begin(): void {
    this.#handoffs = 0
    this.#contendedSince = undefined
  }

  /** Must the event loop turn before the next hand-over? */
  get mustYield(): boolean {
    const now = this.#clock.now()
    if (this.#sliceStartedAt === undefined) {
      this.#sliceStartedAt = now
      this.#clock.soon(() => {
        this.#sliceStartedAt = undefined
      })
    }
    return now - this.#sliceStartedAt >= maxSynchronousTime
  }

  /** May this grant be handed over once more? Counts the hand-over. */
  tryHandoff(grant: Grant): boolean {
    if (grant.contended?.() === false) {
      this.begin()
      return true
    }
    const now = this.#clock.now()
    this.#contendedSince ??= now
    this.#handoffs++
    return this.#handoffs <= maxContendedHandoffs && now - this.#contendedSince <= maxContendedHandoffTime
  }
}
