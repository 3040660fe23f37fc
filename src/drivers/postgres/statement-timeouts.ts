/**
 * The time limit of every statement, with one timer for all: it checks the oldest and is armed again for the next. Answers that arrived
 * while the event loop was blocked are read first.
 */
import type { Clock } from '../../core/clock.js'

export class StatementTimeouts {
  readonly #clock: Clock
  readonly #timeout: number
  /** In the order in which they were sent, which is that of their ends. */
  readonly #flights = new Set<{ readonly due: number; readonly late: () => void }>()
  #disarm: (() => void) | undefined

  /** @param timeout ms that a statement may take */
  constructor(clock: Clock, timeout: number) {
    this.#clock = clock
    this.#timeout = timeout
  }

  /** Rejects after the timeout; `abandoned` gets what may still arrive. */
  within<T>(work: Promise<T>, abandoned: (late: Promise<T>) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      const due = this.#clock.now() + this.#timeout
      const late = () => {
        reject(new Error(`no answer within ${this.#timeout} ms`))
        abandoned(work)
      }
      const flight = { due, late }
      this.#flights.add(flight)
      this.#disarm ??= this.#checkAt(due)
      work.then(
        (value) => {
          this.#flights.delete(flight)
          resolve(value)
        },
        (error) => {
          this.#flights.delete(flight)
          reject(error)
        },
      )
    })
  }

  /** Nobody waits any longer: all are late. */
  close(): void {
    this.#disarm?.()
    for (const flight of this.#flights) flight.late()
    this.#flights.clear()
  }

  #checkAt(at: number): () => void {
    return this.#clock.at(at, () => this.#clock.soon(() => this.#check()), { ref: false })
  }

  #check(): void {
    this.#disarm = undefined
    const now = this.#clock.now()
    for (const flight of this.#flights) {
      if (flight.due > now) break
      this.#flights.delete(flight)
      flight.late()
    }
    const [first] = this.#flights
    if (first !== undefined) this.#disarm = this.#checkAt(first.due)
  }
}
