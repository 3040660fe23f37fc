/** Waits for a reply of the store that may never come. */
import type { Engine } from './engine.js'
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
  readonly #engine: Engine
  readonly #until: number
  readonly #resolve: (result: R | undefined) => void
  #disarm: (() => void) | undefined

  constructor(engine: Engine, ms: number, resolve: (result: R | undefined) => void) {
    this.#engine = engine
    this.#until = engine.clock.now() + ms
    this.#resolve = resolve
  }

  arm(): void {
    const { clock } = this.#engine
    // After a blocked event loop the reply may be there already: it is read first.
    this.#disarm = clock.at(this.#until, () => clock.soon(() => this.done(undefined)))
  }

  done(result: R | undefined): void {
    if (this.isOver) return
    this.isOver = true
    this.#disarm?.()
    this.#resolve(result)
  }
}
