/**
 * How long a caller is willing to wait: deadline and abort, folded into one.
 *
 * Most acquisitions end within the microtasks that follow, so a `Patience` arms its timer and its abort listener only
 * when those have run, or when a driver asks for the signal because it is about to park.
 */
import type { Clock } from './clock.js'
import type { Blocked } from './driver.js'

export type WaitEnd = 'deadline' | 'aborted' | 'closed'

/** Something that needs a timer or a listener, unless it is over within the microtasks at hand. */
export interface Armed {
  readonly isOver: boolean
  arm(): void
}

/** Shared by everything that waits in one `createLocks`: what is not armed yet. */
export class Unarmed {
  readonly #clock: Clock
  #waits: Armed[] = []
  #scheduled = false
  #sweepAt = 1024

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(wait: Armed): void {
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

  /** A loop that never leaves the microtasks must not pile up what is over already. */
  #sweep(): void {
    this.#waits = this.#waits.filter((wait) => !wait.isOver)
    this.#sweepAt = Math.max(1024, 2 * this.#waits.length)
  }
}

/** Who is told, once, that the wait ended before a grant came. */
export interface Waiting {
  waitEnded(how: WaitEnd): void
}

export class Patience implements Armed {
  /** Clock reading after which the caller has no use for a grant. */
  readonly deadline: number
  /** How the wait ended, if it did before a grant came. */
  ended: WaitEnd | undefined
  /** The newest the driver said about who stands in the way. */
  blocked: Blocked | undefined
  readonly #clock: Clock
  readonly #signal: AbortSignal | undefined
  #waiting: Waiting | undefined
  #disarm: (() => void) | undefined
  #armed = false
  #aborted: (() => void) | undefined

  constructor(
    clock: Clock,
    unarmed: Unarmed,
    deadline: number,
    signal: AbortSignal | undefined,
    waiting: Waiting,
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

  /** Idempotent. The timer keeps the process alive, also for a wait without an end: somebody waits for the answer. */
  arm(): void {
    if (this.#armed || this.#waiting === undefined) return
    this.#armed = true
    if (this.#signal?.aborted === true) {
      this.end('aborted')
      return
    }
    if (this.#signal !== undefined) {
      this.#aborted = () => this.end('aborted')
      this.#signal.addEventListener('abort', this.#aborted)
    }
    this.#disarm = this.#clock.at(this.deadline, () => this.end('deadline'))
  }

  end(how: WaitEnd): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    this.ended = how
    this.done()
    waiting.waitEnded(how)
  }

  /**
   * The grant is here: is the caller still there? Checks what a timer or an abort event not yet delivered would say,
   * so that a late grant never reaches a caller who has gone.
   */
  stillThere(now: number = this.#clock.now()): boolean {
    if (this.#waiting === undefined) return false
    if (this.#signal?.aborted === true) this.end('aborted')
    else if (now > this.deadline) this.end('deadline')
    return this.ended === undefined
  }

  /** Takes timer and listener off; the wait is over without having ended by itself. */
  done(): void {
    this.#waiting = undefined
    if (!this.#armed) return
    this.#disarm?.()
    if (this.#aborted !== undefined) this.#signal?.removeEventListener('abort', this.#aborted)
  }
}
