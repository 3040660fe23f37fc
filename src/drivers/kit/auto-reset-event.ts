import type { Clock } from '../../core/clock.js'

/** A wake-up for one waiter. A `set` that comes before the wait is kept, not lost. */
export class AutoResetEvent {
  readonly #clock: Clock
  #isSet = false
  #wake: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  readonly set = (): void => {
    this.#isSet = true
    this.#wake?.()
  }

  /** Resolves at once if the event was set since the last wait, otherwise at the next `set` or after `ms`. One caller at a time. */
  async wait(ms: number = Number.POSITIVE_INFINITY): Promise<void> {
    if (!this.#isSet) {
      await new Promise<void>((resolve) => {
        const stop =
          ms === Number.POSITIVE_INFINITY ? undefined : this.#clock.at(this.#clock.now() + ms, resolve)
        this.#wake = () => {
          stop?.()
          resolve()
        }
      })
      this.#wake = undefined
    }
    this.#isSet = false
  }
}
