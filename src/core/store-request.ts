/**
 * One claim sent to the driver, and the wait that the driver sees. A turn may outlive the caller it was begun for:
 * another caller of the same process can take it over, and with it the queue entry in the store.
 */
import type { Claim, Wait, WaitStatus } from './driver.js'
import type { LocalQueue, QueueEntry } from './local-queue.js'

export class StoreRequest implements Wait {
  readonly claim: Claim
  /** A single attempt. */
  readonly once: boolean
  ended = false
  /** It was taken over, or begun again: the reply "not granted" does not end the wait of its present owner. */
  reassigned = false
  /** The store has reported what blocks it. */
  reported = false
  readonly #line: LocalQueue
  #owner: QueueEntry | undefined
  #controller: AbortController | undefined

  constructor(line: LocalQueue, claim: Claim, owner: QueueEntry, once: boolean) {
    this.#line = line
    this.claim = claim
    this.#owner = owner
    this.once = once
  }

  /** Undefined once the turn is abandoned: a grant that still arrives is released. */
  get owner(): QueueEntry | undefined {
    return this.#owner
  }

  get signal(): AbortSignal {
    // The driver is about to park, so the deadline needs its timer now.
    this.#owner?.deadline.arm()
    this.#controller ??= new AbortController()
    if (this.ended) this.#controller.abort()
    return this.#controller.signal
  }

  remaining(): number {
    return this.ended || this.once ? 0 : (this.#owner?.deadline.remaining ?? 0)
  }

  report(by: WaitStatus): void {
    if (by.error === undefined) this.reported = true
    if (this.#owner !== undefined) this.#line.blocked(this.#owner, by)
  }

  /** The driver has answered. It may keep this object with the grant, which must not keep the caller and its lease. */
  answered(): void {
    this.#owner = undefined
  }

  reassign(owner: QueueEntry): void {
    this.#owner = owner
    this.reassigned = true
    owner.deadline.arm()
  }

  /** Nobody wants the grant any more. */
  abandon(): void {
    this.ended = true
    this.#owner = undefined
    this.#controller?.abort()
  }
}
