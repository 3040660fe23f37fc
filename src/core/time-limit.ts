/**
 * How long to wait for a reply of the store. The one rule for all such limits: a time in which the event loop is blocked does not end one,
 * because no request leaves and no reply is read meanwhile.
 *
 * - A limit that is over before the loop has turned once begins then.
 * - One whose timer fires late is prolonged, once, by as much as it was late, but at most by its own length: the reply may have arrived, and a
 *   driver may need another request after so long a silence.
 * - For the same reason some of its time is left after a block that ends shortly before it: the last quarter of it, at most a second.
 * - When it ends, the loop reads first what has arrived. So it ends where it calls `over`, never by a look at the clock.
 */
import type { Clock } from './clock.js'

export interface TimeLimitOptions {
  /** Clock reading at which it began. @default now */
  readonly from?: number
  /** Clock reading after which it is never prolonged. */
  readonly until?: number
  /** `false` lets the process end meanwhile. */
  readonly ref?: boolean
}

/** The longest time that is left after a block, in ms. */
const maxRest = 1_000

export class TimeLimit {
  /** Clock reading. */
  end: number
  readonly #clock: Clock
  readonly #ms: number
  readonly #over: () => void
  readonly #options: TimeLimitOptions
  #cancel: (() => void) | undefined
  #stopped = false

  /** Nothing happens before `arm`. */
  constructor(clock: Clock, ms: number, over: () => void, options: TimeLimitOptions = {}) {
    this.#clock = clock
    this.#ms = ms
    this.#over = over
    this.#options = options
    this.end = (options.from ?? clock.now()) + ms
  }

  /** Arms it once the event loop has turned: a driver may send its request only at the end of this turn. */
  armSoon(): this {
    this.#clock.soon(() => this.arm())
    return this
  }

  /** The event loop has turned since it began. */
  arm(): void {
    if (this.#stopped) return
    const now = this.#clock.now()
    this.#endAt(now < this.end ? this.end : now + this.#ms)
    const rest = Math.min(this.#ms / 4, maxRest)
    this.#at(this.end - rest, (late) => {
      if (late >= rest) return this.#prolong(late - rest, rest)
      this.#endAt(Math.max(this.end, this.#clock.now() + rest))
      this.#at(this.end, (late) => (late > 0 ? this.#prolong(late) : this.#finish()))
    })
  }

  stop(): void {
    this.#stopped = true
    this.#cancel?.()
  }

  #prolong(late: number, least = 0): void {
    this.#endAt(this.#clock.now() + Math.max(least, Math.min(late, this.#ms)))
    this.#at(this.end, () => this.#finish())
  }

  #endAt(end: number): void {
    this.end = Math.min(end, this.#options.until ?? Number.POSITIVE_INFINITY)
  }

  #at(at: number, fn: (late: number) => void): void {
    const { ref = true } = this.#options
    this.#cancel = this.#clock.at(at, () => fn(this.#clock.now() - at), { ref })
  }

  #finish(): void {
    this.#clock.soon(() => {
      if (!this.#stopped) this.#over()
    })
  }
}
