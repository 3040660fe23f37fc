/**
 * One renewal request of a grant.
 *
 * ```
 *           ┌──► reply in time: renewed, or the store no longer keeps the grant
 *   sent ───┼──► failed: the store refused it or could not be reached
 *           └──► given up: no reply in time, or the lease ended ──► a late reply still counts
 * ```
 * A late reply counts because it carries the deadline of its own request. What all requests together prove is in
 * `validity.ts`; when the next one is sent is decided in `lease-plan.ts`.
 */
import type { Claim } from './driver.js'
import type { Engine } from './engine.js'
import { BackendError, UnsupportedError, unavailable } from './errors.js'
import type { LeaseRecord } from './lease-record.js'
import { TimeLimit } from './time-limit.js'
import type { SentRenewal, Validity } from './validity.js'

/** Whose grant is renewed. */
export interface RenewalOwner {
  readonly claim: Claim
  /** Called for every reply, also for a late one. @param validUntil undefined: the store no longer keeps the grant */
  replied(validUntil: number | undefined): void
}

export interface RenewalTerms {
  /** The ttl to ask the store for, in ms. */
  readonly ttl: number
  /** It is given up after this many ms, */
  readonly timeout: number
  /** or at this clock reading, even if the event loop was blocked meanwhile. */
  readonly until: number
  /** `false` lets the process end meanwhile. */
  readonly ref: boolean
  /** Called before the owner's `replied` if it was not given up before. */
  readonly inTime: () => void
}

export class Renewal {
  readonly #engine: Engine
  readonly #lease: LeaseRecord
  readonly #owner: RenewalOwner
  readonly #terms: RenewalTerms
  readonly #from: number
  readonly #controller = new AbortController()

  constructor(engine: Engine, lease: LeaseRecord, owner: RenewalOwner, terms: RenewalTerms) {
    this.#engine = engine
    this.#lease = lease
    this.#owner = owner
    this.#terms = terms
    this.#from = engine.clock.now()
  }

  /** Resolves with the reply; rejects when the request fails or is given up. Reports a failure of the store as an event. */
  async send(): Promise<void> {
    const { timeout, until, ref } = this.#terms
    const giveUp = () => this.#controller.abort(this.#noAnswer())
    const limit = new TimeLimit(this.#engine.clock, timeout, giveUp, { until, ref }).armSoon()
    try {
      await Promise.race([this.#reply(), rejection(this.#controller.signal)])
    } catch (error) {
      const why = this.#explained(error)
      this.#emitFailed(why)
      throw why
    } finally {
      limit.stop()
    }
  }

  abort(): void {
    this.#controller.abort()
  }

  /** Every reply is recorded, in time or late. */
  #reply(): Promise<void> {
    const { grant, validity } = this.#lease
    const { ttl, inTime } = this.#terms
    const { signal } = this.#controller
    const sent = validity.sent(this.#from, ttl)
    return grant.renew(ttl, signal).then(
      (validUntil) => {
        if (!signal.aborted) inTime()
        if (validUntil !== undefined) validity.answered(sent)
        this.#owner.replied(validUntil)
      },
      (error) => {
        recordFailure(validity, sent, error)
        throw error
      },
    )
  }

  /** An earlier failure may say why the store is silent. */
  #noAnswer(): BackendError {
    const { lastError } = this.#lease
    return this.#unavailable(
      lastError instanceof BackendError && lastError.unanswered ? lastError : undefined,
    )
  }

  #explained(error: unknown): unknown {
    return error instanceof BackendError && error.code === 'BACKEND' ? this.#unavailable(error) : error
  }

  #unavailable(cause: BackendError | undefined): BackendError {
    const { driver, clock } = this.#engine
    return unavailable(driver.name, this.#owner.claim.name, clock.now() - this.#from, cause)
  }

  #emitFailed(error: unknown): void {
    if (this.#lease.ended || wasRefused(error)) return
    const { events, driver } = this.#engine
    events.storeFailed(driver.name, this.#owner.claim.name, 'renew', error)
  }
}

/** A request refused before it was sent changes nothing. The store may have carried out any other. */
function recordFailure(validity: Validity, sent: SentRenewal, error: unknown): void {
  if (wasRefused(error)) validity.refused(sent)
  else validity.failed(sent)
}

/** Nothing was sent: the grant cannot last as long as asked. */
function wasRefused(error: unknown): boolean {
  return error instanceof RangeError || error instanceof UnsupportedError
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )
}
