/** The limit of each semaphore, as far as the store has reported it to this process. */

const maxNames = 10_000

export class PermitLimits {
  readonly #limits = new Map<string, number>()

  /** The limit that the store accepted last. Names beyond the newest ten thousand are forgotten, because the store has the last word. */
  get(name: string): number | undefined {
    return this.#limits.get(name)
  }

  /** The store has granted permits. */
  accepted(name: string, limit: number): void {
    if (this.#limits.get(name) === limit) return
    this.#limits.set(name, limit)
    const [oldest] = this.#limits.keys()
    if (this.#limits.size > maxNames && oldest !== undefined) this.#limits.delete(oldest)
  }

  /** The store has refused this limit: others now use another one. */
  refused(name: string, limit: number): void {
    if (this.#limits.get(name) === limit) this.#limits.delete(name)
  }
}
