import type { Clock } from '../../core/clock.js'

/** Somebody rests until it is rung; a ring that comes before is not lost. */
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

  /** Resolves when it is or was rung since the last rest, or after `ms`; one rests at a time. */
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
