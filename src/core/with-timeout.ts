/** Waits for a reply of the store that may never come. */
import type { Clock } from './clock.js'
import type { Engine } from './engine.js'
import { TimeLimit } from './time-limit.js'
import type { LazyTimer } from './wait-deadline.js'

/** A hanging store must not delay `close()` for longer than this, in ms, at each of its steps. */
export const closeTimeout = 5_000

/** How long a release waits for the store's reply before its outcome counts as unknown, in ms. */
export function releaseTimeout(ttl: number): number {
  return Math.max(50, ttl / 6)
}

/**
 * Resolves with `then` of the result of `work`, or of undefined when `work` rejects or takes longer than `ms`. `then`
 * is a parameter because every further link of a chain of promises costs some 5 % of an uncontended acquire and
 * release in memory.
 */
export function withTimeout<R, T>(
  engine: Engine,
  ms: number,
  work: Promise<R>,
  then: (result: R | undefined) => T,
): Promise<T> {
  return new Promise((resolve) => {
    const answer = new Answer<R>(engine, ms, (result) => resolve(then(result)))
    work.then(
      (result) => answer.done(result),
      () => answer.done(undefined),
    )
    engine.lazyTimers.add(answer, ms)
  })
}

class Answer<R> implements LazyTimer {
  isOver = false
  readonly #clock: Clock
  readonly #from: number
  readonly #ms: number
  readonly #resolve: (result: R | undefined) => void
  /** Made when it is armed: most answers come before. */
  #limit: TimeLimit | undefined

  constructor({ clock }: Engine, ms: number, resolve: (result: R | undefined) => void) {
    this.#clock = clock
    this.#from = clock.now()
    this.#ms = ms
    this.#resolve = resolve
  }

  arm(): void {
    this.#limit = new TimeLimit(this.#clock, this.#ms, () => this.done(undefined), { from: this.#from })
    this.#limit.arm()
  }

  done(result: R | undefined): void {
    if (this.isOver) return
    this.isOver = true
    this.#limit?.stop()
    this.#resolve(result)
  }
}
