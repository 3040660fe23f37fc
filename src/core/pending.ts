/** The bound on waiters in this process. The local queue of a lock counts its own. */
import { TooManyWaitersError } from './errors.js'
import { describe } from './name.js'

/** @throws TypeError, RangeError */
export function checkMaxPending(value: unknown): number {
  if (typeof value !== 'number') throw new TypeError(`maxPending must be a number, got ${describe(value)}`)
  if (value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && value >= 1)) return value
  throw new RangeError(
    `maxPending must be a whole number from 1, or Infinity, got ${value}; to make one attempt, use tryAcquire()`,
  )
}

/** Counts waiters that are in no local queue, such as those of a pool. */
export class Pending {
  readonly #counts = new Map<string, number>()

  /**
   * Adds one for `key` until the returned function is called; that function is idempotent.
   * @throws TooManyWaitersError, naming `name`, when there are `most` already
   */
  enter(key: string, name: string, most: number): () => void {
    const count = this.#counts.get(key) ?? 0
    if (count >= most) throw new TooManyWaitersError(name, most)
    this.#counts.set(key, count + 1)
    let left = false
    return () => {
      if (left) return
      left = true
      const rest = (this.#counts.get(key) ?? 1) - 1
      if (rest === 0) this.#counts.delete(key)
      else this.#counts.set(key, rest)
    }
  }
}
