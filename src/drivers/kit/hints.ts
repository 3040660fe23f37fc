/**
 * Notifications that may be false. Any client that may publish in a store can forge one, so a notification proves nothing:
 * it only makes the process query the store. The first one triggers a query at once; those that arrive during the query
 * trigger one more. Queries are at least 25 ms apart, so a flood of notifications does not become a flood of commands, and a
 * true one among them is delayed by no more than that.
 */
import type { Clock } from '../../core/clock.js'

const gap = 25

export class Hints {
  readonly #clock: Clock
  readonly #query: () => void
  #querying = false
  #again = false
  #notBefore = Number.NEGATIVE_INFINITY
  #disarm: (() => void) | undefined

  /** @param query queries the store, and calls {@link queryDone} once the query was answered or failed */
  constructor(clock: Clock, query: () => void) {
    this.#clock = clock
    this.#query = query
  }

  /** A notification arrived. */
  notify(): void {
    if (this.#querying) this.#again = true
    else if (this.#disarm === undefined) this.#start()
  }

  /** The query was answered or failed. The next query never starts before this returns: the answer may make it unnecessary. */
  queryDone(): void {
    this.#querying = false
    if (!this.#again) return
    this.#again = false
    this.#startAt(this.#clock.now())
  }

  /** Drops pending notifications: they no longer matter. */
  stop(): void {
    this.#disarm?.()
    this.#disarm = undefined
    this.#again = false
  }

  #startAt(at: number): void {
    this.#disarm ??= this.#clock.at(at, () => this.#start(), { ref: false })
  }

  #start(): void {
    this.#disarm = undefined
    const now = this.#clock.now()
    if (now < this.#notBefore) return this.#startAt(this.#notBefore)
    this.#notBefore = now + gap
    this.#querying = true
    this.#query()
  }
}
