/**
 * Changes of one cell that were overtaken go on one after the other, within this process. Forty that begin at once would else
 * overtake each other forty times over, which is eight hundred requests instead of eighty. Who comes while there is no line
 * waits for nobody.
 */
import { unlessAborted } from './unless-aborted.js'

export class Overtaken {
  /** The end of each line, by the key of the cell. */
  readonly #lines = new Map<string, Promise<void>>()

  /** Does anybody stand in line? */
  has(key: string): boolean {
    return this.#lines.has(key)
  }

  /**
   * Resolves when those who came before have gone on, with what ends the own turn.
   * @throws the reason of `signal`
   */
  async turn(key: string, signal: AbortSignal): Promise<() => void> {
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
      await unlessAborted(before, signal)
      return end
    } catch (error) {
      end()
      throw error
    }
  }
}
