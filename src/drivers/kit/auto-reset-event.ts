import type { Clock } from '../../core/clock.js'

/** A wake-up for one waiter. A ring that comes before the wait is kept, not lost. */
export class Bell {
  readonly #clock: Clock
  #rung = false
  #wake: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  readonly ring = (): void => {
    this.#rung = true
    this.#wake?.()
  }

  /** Resolves at once if the bell was rung since the last rest, otherwise at the next ring or after `ms`. One caller at a time. */
  async rest(ms: number = Number.POSITIVE_INFINITY): Promise<void> {
    if (!this.#rung) {
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
    this.#rung = false
  }
}
