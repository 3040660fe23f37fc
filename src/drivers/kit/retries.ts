/**
 * Background work that must not be left undone: ending an attempt that was given up, which may be queued in the store or hold
 * the lock. Failed work is retried until a retry is no longer worthwhile. When the driver closes, pending retries run at once;
 * a try that fails after that is repeated once, a moment later: the store may be back by then.
 */
import type { Clock } from '../../core/clock.js'
import { AutoResetEvent } from './auto-reset-event.js'

interface Task {
  readonly work: () => Promise<unknown>
  /** Clock reading after which there is no retry. */
  readonly until: number
}

/** Pause before the next try, in ms. */
const pause = 250

export class Retries {
  readonly #clock: Clock
  readonly #worthwhile: (error: unknown) => boolean
  readonly #running = new Set<Promise<void>>()
  /** Tasks waiting for their next try, each with the function that stops its timer. */
  readonly #waiting = new Map<Task, () => void>()
  #closed = false

  /** @param worthwhile may the same work succeed later, after this error? */
  constructor(clock: Clock, worthwhile: (error: unknown) => boolean) {
    this.#clock = clock
    this.#worthwhile = worthwhile
  }

  /** Resolves after the first try, whether it succeeded or failed. @param until clock reading after which there is no retry */
  try(work: () => Promise<unknown>, until: number): Promise<void> {
    return this.#try({ work, until })
  }

  /** Makes the first try after `ms`, or when the driver closes. */
  later(ms: number, work: () => Promise<unknown>, until: number): void {
    this.#wait({ work, until }, ms)
  }

  /** Resolves after the last try of all work, or after `ms`. */
  async close(ms: number): Promise<void> {
    this.#closed = true
    for (const [task, stop] of this.#waiting) {
      stop()
      void this.#try(task)
    }
    this.#waiting.clear()
    const done = new AutoResetEvent(this.#clock)
    void this.#all().then(done.set)
    await done.wait(ms)
  }

  /** @param isLast the work has already failed once since the driver began to close */
  #try(task: Task, isLast = false): Promise<void> {
    const failed = async (error: unknown) => {
      if (isLast || !this.#worthwhile(error) || this.#clock.now() >= task.until) return
      if (!this.#closed) return this.#wait(task, pause)
      const paused = new AutoResetEvent(this.#clock)
      await paused.wait(pause)
      await this.#try(task, true)
    }
    const running: Promise<void> = task
      .work()
      .then(() => undefined, failed)
      .finally(() => this.#running.delete(running))
    this.#running.add(running)
    return running
  }

  #wait(task: Task, ms: number): void {
    if (this.#closed) return
    const retry = () => {
      this.#waiting.delete(task)
      void this.#try(task)
    }
    this.#waiting.set(task, this.#clock.at(this.#clock.now() + ms, retry, { ref: false }))
  }

  async #all(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }
}
