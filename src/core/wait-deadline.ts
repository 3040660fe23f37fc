/**
 * How long a caller is willing to wait: deadline and abort in one object.
 *
 * Most acquisitions end within the following microtasks, so a `WaitDeadline` arms its timer and its abort listener only
 * after those, or when a driver reads the signal because it is about to park.
 */
import type { Clock } from './clock.js'
import { onAbort } from './on-abort.js'

export type WaitOutcome = 'deadline' | 'aborted' | 'closed'

/** Gets its timer or listener only if still pending after the current microtasks. */
export interface LazyTimer {
  readonly isOver: boolean
  arm(): void
}

/** Everything in one `createLocks` that waits and is not armed yet. */
export class LazyTimers {
  readonly #clock: Clock
  #waits: LazyTimer[] = []
  #scheduled = false
  #sweepAt = 1024

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(wait: LazyTimer): void {
    this.#waits.push(wait)
    if (!this.#scheduled) this.#schedule()
    if (this.#waits.length >= this.#sweepAt) this.#sweep()
  }

  #schedule(): void {
    this.#scheduled = true
    this.#clock.soon(() => {
      this.#scheduled = false
      for (const wait of this.#waits) if (!wait.isOver) wait.arm()
      this.#waits.length = 0
    })
  }

  /** A loop that never leaves the microtasks must not accumulate finished waits. */
  #sweep(): void {
    this.#waits = this.#waits.filter((wait) => !wait.isOver)
    this.#sweepAt = Math.max(1024, 2 * this.#waits.length)
  }
}

/** Notified, once, that the wait ended before a grant came. */
export interface WaitListener {
  waitEnded(how: WaitOutcome): void
}

export class WaitDeadline implements LazyTimer {
  /** Clock reading after which the caller has no use for a grant. */
  readonly deadline: number
  /** How the wait ended, if it ended before a grant came. */
  ended: WaitOutcome | undefined
  readonly #clock: Clock
  readonly #signal: AbortSignal | undefined
  #waiting: WaitListener | undefined
  #disarm: (() => void) | undefined
  #armed = false
  #unlisten: (() => void) | undefined

  constructor(
    clock: Clock,
    unarmed: LazyTimers,
    deadline: number,
    signal: AbortSignal | undefined,
    waiting: WaitListener,
  ) {
    this.#clock = clock
    this.deadline = deadline
    this.#signal = signal
    this.#waiting = waiting
    unarmed.add(this)
  }

  get isOver(): boolean {
    return this.#waiting === undefined
  }

  get remaining(): number {
    return Math.max(0, this.deadline - this.#clock.now())
  }

  /** Idempotent. The timer keeps the process alive, also for a wait without an end: somebody awaits the result. */
  arm(): void {
    if (this.#armed || this.#waiting === undefined) return
    this.#armed = true
    if (this.#signal?.aborted === true) {
      this.end('aborted')
      return
    }
    if (this.#signal !== undefined) {
      this.#unlisten = onAbort(this.#signal, () => this.end('aborted'))
    }
    this.#disarm = this.#clock.at(this.deadline, () => this.end('deadline'))
  }

  end(how: WaitOutcome): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    this.ended = how
    this.done()
    waiting.waitEnded(how)
  }

  /**
   * The grant is here: does the caller still wait? Also checks for a deadline or an abort whose event is not
   * delivered yet, so that a late grant never reaches a caller that has gone.
   */
  isStillWaiting(now: number = this.#clock.now()): boolean {
    if (this.#waiting === undefined) return false
    if (this.#signal?.aborted === true) this.end('aborted')
    else if (now > this.deadline) this.end('deadline')
    return this.ended === undefined
  }

  /** Removes timer and listener; the wait is over without having ended by itself. */
  done(): void {
    this.#waiting = undefined
    if (!this.#armed) return
    this.#disarm?.()
    this.#unlisten?.()
  }
}
