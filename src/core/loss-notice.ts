/** The part of an `AbortSignal` by which the core learns that a grant is gone. */
export interface LossSignal {
  readonly aborted: boolean
  /** Why, once it has aborted. */
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/**
 * The signal of one grant, for its one listener, the core. Every lease that lasts has one, and an `AbortController`
 * with a listener takes a kilobyte.
 *
 * @example
 * readonly lost = new LossNotice()
 * // once the store has replied that the grant is gone:
 * this.lost.abort(new BackendError('mystore', 'the session expired'))
 */
export class LossNotice implements LossSignal {
  aborted = false
  reason: unknown
  #listener: (() => void) | undefined

  /** Only the first call has an effect. */
  abort(reason?: unknown): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    const listener = this.#listener
    this.#listener = undefined
    listener?.()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listener = listener
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined
  }
}
