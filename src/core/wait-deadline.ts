/**
 * How long a caller is willing to wait: deadline and abort in one object.
 *
 * Most acquisitions end at once, so a `WaitDeadline` arms its timer a moment later: with a signal to listen to, or a
 * short wait, after one turn of the event loop, otherwise `shortly`. A blocked event loop does not end it: see `time-limit.ts`.
 */
import type { Clock } from './clock.js'
import { onAbort } from './on-abort.js'
import { TimeLimit } from './time-limit.js'

export type WaitOutcome = 'deadline' | 'aborted' | 'closed'

/** Gets its timer or listener only if still pending a moment later. */
export interface LazyTimer {
  readonly isOver: boolean
  arm(): void
}

/** What is due earlier than in so many ms cannot wait until `shortly`. */
const urgent = 100

/** Everything in one `createLocks` that waits and is not armed yet. */
export class LazyTimers {
  readonly #afterMicrotasks = new Unarmed((arm) => process.nextTick(arm))
  readonly #soon: Unarmed
  readonly #shortly: Unarmed
  #cancel: (() => void) | undefined

  constructor(clock: Clock) {
    this.#soon = new Unarmed((arm) => clock.soon(arm))
    this.#shortly = new Unarmed((arm) => {
      this.#cancel = clock.shortly(arm)
    })
  }

  /** Arms it right after the current microtasks, in which most of its kind end. */
  addBriefly(wait: LazyTimer): void {
    this.#afterMicrotasks.add(wait)
  }

  /**
   * Arms it once the store may have replied.
   * @param dueIn ms until it is due; 0: it listens for what may happen at any moment
   */
  add(wait: LazyTimer, dueIn: number): void {
    if (dueIn < urgent) this.#soon.add(wait)
    else this.#shortly.add(wait)
  }

  /** Leaves no timer of its own behind. */
  close(): void {
    this.#cancel?.()
    this.#shortly.arm()
  }
}

class Unarmed {
  readonly #schedule: (arm: () => void) => void
  #waits: LazyTimer[] = []
  #scheduled = false
  #sweepAt = 64

  constructor(schedule: (arm: () => void) => void) {
    this.#schedule = schedule
  }

  add(wait: LazyTimer): void {
    this.#waits.push(wait)
    if (!this.#scheduled) {
      this.#scheduled = true
      this.#schedule(() => this.arm())
    }
    if (this.#waits.length >= this.#sweepAt) this.#sweep()
  }

  arm(): void {
    this.#scheduled = false
    const waits = this.#waits
    this.#waits = []
    for (const wait of waits) if (!wait.isOver) wait.arm()
  }

  /** A loop that never leaves the microtasks, or ends each wait at once, must not accumulate finished waits. */
  #sweep(): void {
    this.#waits = this.#waits.filter((wait) => !wait.isOver)
    this.#sweepAt = Math.max(64, 2 * this.#waits.length)
  }
}

/** Notified, once, that the wait ended before a grant came. */
export interface WaitListener {
  waitEnded(how: WaitOutcome): void
}

export class WaitDeadline implements LazyTimer {
  /** How the wait ended, if it ended before a grant came. */
  ended: WaitOutcome | undefined
  readonly #clock: Clock
  readonly #asked: number
  readonly #wait: number
  readonly #signal: AbortSignal | undefined
  #waiting: WaitListener | undefined
  /** Made when it is armed. */
  #limit: TimeLimit | undefined
  #armed = false
  #unlisten: (() => void) | undefined

  constructor(
    clock: Clock,
    unarmed: LazyTimers,
    asked: number,
    wait: number,
    signal: AbortSignal | undefined,
    waiting: WaitListener,
  ) {
    this.#clock = clock
    this.#asked = asked
    this.#wait = wait
    this.#signal = signal
    this.#waiting = waiting
    unarmed.add(this, signal === undefined ? wait : 0)
  }

  get isOver(): boolean {
    return this.#waiting === undefined
  }

  get remaining(): number {
    const end = this.#limit?.end ?? this.#asked + this.#wait
    return Math.max(0, end - this.#clock.now())
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
    this.#limit = new TimeLimit(this.#clock, this.#wait, () => this.end('deadline'), { from: this.#asked })
    this.#limit.arm()
  }

  end(how: WaitOutcome): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    this.ended = how
    this.done()
    waiting.waitEnded(how)
  }

  /**
   * The grant is here: does the caller still wait? Also checks for an abort whose event is not delivered yet, so that
   * a late grant never reaches a caller that has gone.
   */
  isStillWaiting(): boolean {
    if (this.#waiting === undefined) return false
    if (this.#signal?.aborted === true) this.end('aborted')
    return this.ended === undefined
  }

  /** Removes timer and listener; the wait is over without having ended by itself. */
  done(): void {
    this.#waiting = undefined
    if (!this.#armed) return
    this.#limit?.stop()
    this.#unlisten?.()
  }
}
