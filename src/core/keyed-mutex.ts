/**
 * Serialises the retries of conflicting changes of one cell within this process. Otherwise forty changes that begin
 * at once would overtake each other forty times over, which is eight hundred requests instead of eighty. A first
 * attempt does not queue while the queue is empty.
 */
import { orAborted } from './or-aborted.js'

export class KeyedMutex {
  /** The end of each queue, by the key of the cell. */
  readonly #lines = new Map<string, Promise<void>>()

  /** Is anybody queued? */
  has(key: string): boolean {
    return this.#lines.has(key)
  }

  /**
   * Resolves when all earlier callers are done, with the function that ends this turn.
   * @throws the reason of `signal`
   */
  async acquire(key: string, signal: AbortSignal): Promise<() => void> {
    const before = this.#lines.get(key) ?? Promise.resolve()
    let end = () => {}
    const mine = new Promise<void>((resolve) => {
      end = resolve
    })
    const line = before.then(() => mine)
    this.#lines.set(key, line)
    void line.then(() => {
      if (this.#lines.get(key) === line) this.#lines.delete(key)
    })
    try {
      await orAborted(before, signal)
      return end
    } catch (error) {
      end()
      throw error
    }
  }
}
