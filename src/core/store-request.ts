/**
 * One claim sent to the driver, and the wait that the driver sees. A request may outlive the caller it was sent for:
 * another caller of the same process can take it over, and with it the queue entry in the store.
 */
import { mayBeCached } from './caching.js'
import type { Claim, Wait, WaitStatus } from './driver.js'
import { lastReport } from './last-report.js'
import type { LocalQueue } from './local-queue.js'
import type { QueueEntry } from './queue-entry.js'
import type { Request } from './queue-state.js'
import { TimeLimit } from './time-limit.js'

export class StoreRequest implements Request<QueueEntry>, Wait {
  readonly claim: Claim
  readonly once: boolean
  ended = false
  owner: QueueEntry | undefined
  reassigned = false
  reported = false
  /** What blocks it may be nothing but a cache: see `caching.ts`. */
  cached = false
  readonly sent: number
  /** Settles, never rejects, once the store's reply has been dealt with. */
  reply: Promise<void> | undefined
  readonly #queue: LocalQueue
  /** How long a single attempt waits in the queue. */
  #patience: TimeLimit | undefined
  #controller: AbortController | undefined

  constructor(queue: LocalQueue, claim: Claim, owner: QueueEntry, once: boolean) {
    this.#queue = queue
    this.claim = claim
    this.owner = owner
    this.once = once
    this.sent = queue.engine.clock.now()
  }

  /** Makes a single attempt wait in the queue for `ms`. */
  bePatient(ms: number): void {
    this.#patience = new TimeLimit(this.#queue.engine.clock, ms, () => this.abandon()).armSoon()
  }

  /** Is this the second request of a single attempt, which waits in the queue? */
  get isPatient(): boolean {
    return this.#patience !== undefined
  }

  /** The store has replied. */
  done(): void {
    this.#patience?.stop()
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.ended) this.#controller.abort()
    return this.#controller.signal
  }

  remaining(): number {
    if (this.ended) return 0
    const left = this.owner?.deadline.remaining ?? 0
    if (!this.once) return left
    if (this.#patience === undefined) return 0
    return Math.max(0, Math.min(left, this.#patience.end - this.#queue.engine.clock.now()))
  }

  report(by: WaitStatus): void {
    // The store has just answered; so short a silence is no outage.
    if (this.isPatient && by.error !== undefined) return
    if (by.error === undefined) this.reported = true
    this.cached = by.holder !== undefined && mayBeCached(by.holder.attempt)
    if (this.owner !== undefined) this.#reportTo(this.owner, by)
  }

  #reportTo(owner: QueueEntry, by: WaitStatus): void {
    owner.blocked(by)
    const queue = this.#queue
    const { name } = queue
    const { driver, events, clock } = queue.engine
    queue.lastReport = lastReport(by, clock.now())
    if (by.error !== undefined) events.storeFailed(driver.name, name, 'acquire', by.error)
    if (!events.wants('waiting')) return
    const { mode, terms, acquisition } = owner
    events.emit('waiting', { name, driver: driver.name, mode, note: terms.note, acquisition, blocked: by })
  }

  /** No caller wants the grant any more. */
  abandon(): void {
    this.ended = true
    this.#controller?.abort()
  }
}
