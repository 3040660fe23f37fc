/**
 * One call of `acquire` from the moment it joins the local queue until it settles: granted, refused, timed out,
 * aborted or failed, and with which error.
 * Long because the ways in which one acquisition ends are read together.
 */

import type { ClaimBatch } from './claim-batch.js'
import type { WaitStatus } from './driver.js'
import { AcquireTimeoutError, BackendError, unavailable } from './errors.js'
import type { AboutAcquisition, DenialReason } from './events.js'
import { inspectOnce } from './final-inspection.js'
import type { Hold } from './hold.js'
import { holderAt, type LastReport, lastReport } from './last-report.js'
import { HeldLease } from './lease.js'
import type { LocalQueue } from './local-queue.js'
import { localHolder } from './local-status.js'
import type { Mode } from './mode.js'
import { onAbort } from './on-abort.js'
import type { Terms } from './options.js'
import type { QueueEntry } from './queue-entry.js'
import { WaitDeadline, type WaitListener, type WaitOutcome } from './wait-deadline.js'

/** Callbacks of one acquisition: progress and result. */
export interface Callbacks {
  /** `undefined`: not granted. `why` makes the error for a caller that throws one. */
  resolve(lease: HeldLease | undefined, why: () => Error | Promise<Error>): void
  reject(error: unknown): void
  /** The batch that its claim joins. */
  readonly batch?: ClaimBatch
  /** Called whenever the store reports what blocks the claim. */
  blocked?(by: WaitStatus): void
}

let acquisitions = 0

/** The number that the events of one acquisition carry. */
export function nextAcquisition(): number {
  return ++acquisitions
}

/** A report on the holder that is younger than this, in ms, goes into the error without another query. */
const statusMaxAge = 250
/** Longest time that a single attempt waits for the store's reply, in ms: a frozen store is an error, not "not free". */
const maxAttemptTtl = 10_000

/** One call of `acquire`, until it settles. */
export class Acquisition implements QueueEntry, WaitListener {
  readonly terms: Terms
  readonly mode: Mode
  readonly asked: number
  readonly acquisition: number = nextAcquisition()
  readonly deadline: WaitDeadline
  readonly batch: ClaimBatch | undefined
  /** Stops the watch for deadlocks. */
  watched: (() => void) | undefined
  readonly #queue: LocalQueue
  readonly #once: boolean
  readonly #caller: Callbacks
  #report: LastReport | undefined
  /** The stack of the call, where leaks are detected. */
  readonly #stack: string | undefined

  constructor(queue: LocalQueue, terms: Terms, mode: Mode, once: boolean, caller: Callbacks) {
    const { clock, lazyTimers } = queue.engine
    this.#queue = queue
    this.#once = once
    this.#caller = caller
    this.terms = terms
    this.mode = mode
    this.batch = caller.batch
    this.asked = clock.now()
    this.#stack = terms.leakWarning ? queue.engine.leaks?.stack() : undefined
    const timeout = once
      ? Math.min(terms.ttl, maxAttemptTtl, caller.batch?.longest ?? maxAttemptTtl)
      : terms.wait
    this.deadline = new WaitDeadline(clock, lazyTimers, this.asked, timeout, terms.signal, this)
    const { events } = queue.engine
    if (events.wants('requested')) events.emit('requested', this.#about())
  }

  granted(hold: Hold | undefined): void {
    this.watched?.()
    if (hold === undefined) this.#emitDenied('busy')
    const lease = hold && new HeldLease(hold, this.mode.kind)
    if (lease !== undefined && this.#stack !== undefined) this.#queue.engine.leaks?.watch(lease, this.#stack)
    this.#caller.resolve(lease, () => this.#withCurrentHolder(this.#timeoutError(0), 'busy'))
  }

  failed(error: unknown): void {
    this.watched?.()
    const silent = error instanceof BackendError && error.code === 'BACKEND' && error.unanswered
    const why = silent ? this.#unavailableError(error) : error
    this.#emitDenied('failed', why)
    this.#caller.reject(why)
  }

  blocked(by: WaitStatus): void {
    this.#report = lastReport(by, this.#queue.engine.clock.now(), this.#report)
    this.#caller.blocked?.(by)
  }

  /** Ends a wait that would never be granted. */
  abort(error: unknown): void {
    if (this.deadline.isOver) return
    this.deadline.done()
    this.#queue.cancel(this)
    this.failed(error)
  }

  waitEnded(how: WaitOutcome): void {
    const why = this.#why(how)
    this.watched?.()
    this.#queue.cancel(this)
    if (how === 'deadline' && !this.#once) return void this.#timedOut(why as Error)
    this.#emitDenied(how === 'aborted' ? 'aborted' : 'failed', why)
    this.#caller.reject(why)
  }

  async #timedOut(why: Error): Promise<void> {
    let error: Error
    try {
      error = await this.#withCurrentHolder(why)
    } catch (reason) {
      this.#emitDenied('aborted', reason)
      return this.#caller.reject(reason)
    }
    this.#emitDenied(error instanceof AcquireTimeoutError ? 'timeout' : 'failed', error)
    this.#caller.resolve(undefined, () => error)
  }

  /** The fields of every event about this acquisition. */
  #about(): AboutAcquisition {
    const { engine, name } = this.#queue
    const { mode, acquisition } = this
    return { name, driver: engine.driver.name, mode, note: this.terms.note, acquisition }
  }

  #emitDenied(why: DenialReason, error?: unknown): void {
    const { events, driver, clock } = this.#queue.engine
    if (error instanceof BackendError && error.code !== 'CLOSED')
      events.storeFailed(driver.name, this.#queue.name, 'acquire', error)
    if (!events.wants('denied')) return
    const waited = clock.now() - this.asked
    events.emit('denied', { ...this.#about(), waited, why, ...(error !== undefined && { error }) })
  }

  #why(how: WaitOutcome): unknown {
    const { engine } = this.#queue
    if (how === 'aborted') return this.terms.signal?.reason
    if (how === 'closed') return engine.closedError()
    const error = this.#report?.error
    if (this.#once) return this.#unavailableError(error)
    // A waiter behind others of this process knows what the store reported to the first of them.
    const first = this.#queue.lastReport
    const status = this.#report?.status ?? first?.status
    this.#report = { status, error }
    const waited = engine.clock.now() - this.asked
    const held = localHolder(this.#queue) !== undefined || status !== undefined
    return held ? this.#timeoutError(waited) : this.#unavailableError(error ?? first?.error)
  }

  /**
   * Looks up who holds the lock at the end of the wait: others may have held it since the store's last report, if
   * there was one, and a store that has died since is not a busy lock.
   * @param just the store's answer right now, where a single attempt asked
   * @throws `signal.reason` when aborted meanwhile
   */
  async #withCurrentHolder(why: Error, just?: 'busy'): Promise<Error> {
    const { clock } = this.#queue.engine
    const status = this.#report?.status
    const isFresh = status?.by.holder !== undefined && clock.now() - status.at < statusMaxAge
    if (!(why instanceof AcquireTimeoutError) || isFresh || localHolder(this.#queue) !== undefined) return why
    const { answered, holder, error } = await this.#unlessAborted(inspectOnce(this.#queue))
    if (!answered && just === undefined) return this.#unavailableError(error ?? this.#report?.error)
    return holder === undefined
      ? why
      : new AcquireTimeoutError(why.lock, why.waited, { ...status?.by, holder })
  }

  /** @param look never rejects */
  #unlessAborted<T>(look: Promise<T>): Promise<T> {
    const { signal } = this.terms
    if (signal === undefined) return look
    return new Promise((resolve, reject) => {
      const off = onAbort(signal, () => reject(signal.reason))
      void look.then((seen) => {
        off()
        resolve(seen)
      })
    })
  }

  #unavailableError(cause: BackendError | undefined): BackendError {
    const { engine, name } = this.#queue
    return unavailable(engine.driver.name, name, engine.clock.now() - this.asked, cause)
  }

  #timeoutError(waited: number): AcquireTimeoutError {
    const { engine, name } = this.#queue
    const { status, error } = this.#report ?? {}
    // The state of a hold in this process is known exactly.
    const holder = localHolder(this.#queue) ?? holderAt(status, engine.clock.now())
    return new AcquireTimeoutError(name, waited, {
      ...status?.by,
      ...(holder !== undefined && { holder }),
      ...(error !== undefined && { error }),
    })
  }
}
