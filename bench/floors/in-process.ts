/** The floor of a lock inside one process: no leases, no deadlines, no tokens, no events. */

export class BareMap {
  readonly #held = new Map<string, object>()

  take(name: string): void {
    if (this.#held.has(name)) throw new Error(`${name} is taken`)
    this.#held.set(name, {})
  }

  drop(name: string): void {
    this.#held.delete(name)
  }

  async takeLater(name: string): Promise<void> {
    this.take(name)
  }

  async dropLater(name: string): Promise<void> {
    this.drop(name)
  }
}

/** A FIFO queue over promises: the usual in-process mutex. */
export class BareQueue {
  #taken = false
  readonly #waiting: (() => void)[] = []
  #next = 0

  acquire(): Promise<void> {
    if (!this.#taken) {
      this.#taken = true
      return Promise.resolve()
    }
    return new Promise((resolve) => void this.#waiting.push(resolve))
  }

  release(): void {
    const next = this.#waiting[this.#next++]
    if (this.#next > 1024) {
      this.#waiting.splice(0, this.#next)
      this.#next = 0
    }
    if (next === undefined) {
      this.#next = 0
      this.#waiting.length = 0
      this.#taken = false
    } else next()
  }
}
