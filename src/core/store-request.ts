/**
 * One claim sent to the driver, and the wait that the driver sees. A turn may outlive the caller it was begun for:
 * another caller of the same process can take it over, and with it the queue entry in the store.
 */
import type { Claim, Wait, WaitStatus } from './driver.js'
import type { LocalQueue, QueueEntry } from './local-queue.js'
import type { Request } from './queue-state.js'

export class StoreRequest implements Request<QueueEntry>, Wait {
  readonly claim: Claim
  readonly once: boolean
  ended = false
  owner: QueueEntry | undefined
  reassigned = false
  reported = false
  /** Settles, never rejects, once the store's reply has been dealt with. */
  reply: Promise<void> | undefined
  readonly #queue: LocalQueue
  #controller: AbortController | undefined

  constructor(queue: LocalQueue, claim: Claim, owner: QueueEntry, once: boolean) {
    this.#queue = queue
    this.claim = claim
    this.owner = owner
    this.once = once
  }

  get signal(): AbortSignal {
    // The driver is about to park, so the deadline needs its timer now.
    this.owner?.deadline.arm()
    this.#controller ??= new AbortController()
    if (this.ended) this.#controller.abort()
    return this.#controller.signal
  }

  remaining(): number {
    return this.ended || this.once ? 0 : (this.owner?.deadline.remaining ?? 0)
  }

  report(by: WaitStatus): void {
    if (by.error === undefined) this.reported = true
    if (this.owner !== undefined) this.#queue.blocked(this.owner, by)
  }

  /** Nobody wants the grant any more. */
  abandon(): void {
    this.ended = true
    this.#controller?.abort()
  }
}
