import type { Clock } from '../../core/clock.js'

/** A pause that can be cut short, even before it begins. */
export class Pause {
  readonly #clock: Clock
  #end: (() => void) | undefined
  #skip = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Ends the current pause, or skips the next one. */
  readonly cut = (): void => {
    if (this.#end === undefined) this.#skip = true
    else this.#end()
  }

  async take(ms: number): Promise<void> {
    if (!this.#skip) {
      await new Promise<void>((resolve) => {
        const stop = this.#clock.at(this.#clock.now() + ms, () => this.#end?.())
        this.#end = () => {
          stop()
          resolve()
        }
      })
      this.#end = undefined
    }
    this.#skip = false
  }
}
