/**
 * One claim in the queue of a store with sessions: when to retry, when to park, where to report failures, and that nothing stays
 * behind. How a queue entry is made and read is the driver's part, in its `waiter.ts`.
 *
 * ```
 *   try ── granted ──────────────────────────────► Grant
 *    ▲ └─ nothing, or a temporary failure: pause ┐
 *    └──────────────────────────────────────────┘
 *          the wait is over, or refused ──► the queue entry is removed ──► nothing
 * ```
 * Long because what a claim leaves behind at each step must be visible beside that step.
 */
import type { Claim, Grant, Wait } from '../../../core/driver.js'
import { permitLimitError } from '../../../core/errors.js'
import type { AutoResetEvent } from '../auto-reset-event.js'
import { type Failure, InconclusiveError, ServerRefusal } from '../failure.js'
import type { LocalWaiter } from '../local-waiters.js'
import type { SessionHold } from './hold.js'
import { conflictingLimit, type QueueEntry } from './order.js'
import type { Session, SessionEntry } from './session.js'
import type { SessionPool } from './session-pool.js'

/** The share of its ttl a lease has left when granted. With less left, the session is proven again first. A little more than promised. */
const sufficientTtl = 0.93
const least = 0.62
/** How long proving a session may delay a lease that is about to be granted, in ms. */
const proofTimeout = 1_000

export interface ClaimStore {
  toFailure(error: unknown): Failure
  /** Removes what was placed under `session`; later, if that is not possible at once. */
  removeEntry(session: Session): Promise<void>
}

export class SessionClaim implements SessionEntry {
  readonly key: string
  readonly waits = true
  predecessor: string | undefined
  /** The queue entry is certainly gone, with its session or alone. */
  lost = false
  /** A request had no answer: it may still arrive, even after a later one. */
  ambiguous = false
  /** The session under which an entry may exist that has not been handed out as a grant. */
  pendingSession: Session | undefined
  readonly #pool: SessionPool
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #store: ClaimStore
  readonly #event: AutoResetEvent
  #signal: AbortSignal | undefined
  #session: Session | undefined
  #lastFailure: Failure | undefined

  constructor(pool: SessionPool, claim: Claim, wait: Wait, key: string, store: ClaimStore) {
    this.#pool = pool
    this.#claim = claim
    this.#wait = wait
    this.#store = store
    this.#event = pool.registerEvent()
    this.key = key
  }

  onGone(): void {
    this.lost = true
    this.#event.set()
  }

  onWake(): void {
    this.#event.set()
  }

  onFailure(error: unknown): void {
    this.#report(this.#store.toFailure(error))
  }

  /** The store has answered. */
  clearFailure(): void {
    this.#lastFailure = undefined
  }

  get isOver(): boolean {
    return this.#wait.ended || this.#pool.closed
  }

  /** One attempt; removes whatever an unanswered duplicate may still create. */
  async tryOnce<G>(attempt: () => Promise<G | undefined>): Promise<G | undefined> {
    try {
      const given = await attempt()
      if (given === undefined) await this.removeEntry()
      return given
    } catch (error) {
      await this.removeEntry()
      throw error instanceof RangeError ? error : this.#store.toFailure(error).error
    } finally {
      this.#close()
    }
  }

  /** Attempts until the wait is over. */
  async tryUntilOver(attempt: () => Promise<Grant | undefined>): Promise<Grant | undefined> {
    try {
      while (!this.isOver) {
        const grant = await this.#try(attempt)
        if (grant !== undefined) return grant
      }
      await this.removeEntry()
      if (this.#lastFailure !== undefined && !this.#pool.closed) throw this.#lastFailure.error
      return undefined
    } catch (error) {
      await this.removeEntry()
      throw error
    } finally {
      this.#signal?.removeEventListener('abort', this.#event.set)
      this.#close()
    }
  }

  /** The session that keeps the queue entry: the current one while it is usable, else a new one. */
  async session(): Promise<Session> {
    if (this.#session?.usable !== true)
      this.#session = await this.#pool.session(this.#claim.ttl, this.#claim.attempt)
    return this.#session
  }

  /** Sends a request that places something. Undefined: the session had ended; {@link session} makes a new one. */
  async createEntry<T extends { readonly repeated: boolean }>(
    session: Session,
    send: () => Promise<T>,
  ): Promise<T | undefined> {
    const fresh = this.#needsProof(session) ? this.#prove(session) : undefined
    fresh?.catch(() => undefined)
    try {
      this.pendingSession = session
      const answer = await send()
      // The unanswered try may still arrive, elsewhere.
      this.ambiguous ||= answer.repeated
      if (fresh !== undefined) await fresh.catch(() => undefined)
      return answer
    } catch (error) {
      if (error instanceof ServerRefusal && error.noSession) {
        session.end()
        return undefined
      }
      this.ambiguous ||= this.#store.toFailure(error).ambiguous
      throw error
    }
  }

  /** Hands out what was placed, if enough of its session is left. */
  async handOut(session: Session, holdOf: () => SessionHold): Promise<Grant> {
    const [grant] = await this.handOutAll(session, () => [holdOf()] as const)
    return grant
  }

  /** Like `granted`, for several entries placed in one step. */
  async handOutAll<H extends readonly SessionHold[]>(session: Session, holdsOf: () => H): Promise<H> {
    // A lease has its ttl left when it is handed out. If the session cannot be proven again now, it must at least last as long
    // as that of a lease that is passed on.
    if (this.#needsProof(session)) {
      await this.#prove(session).catch((error: unknown) => {
        if (this.#remaining(session) < this.#claim.ttl * least) throw error
      })
    }
    const holds = holdsOf()
    const { env, closed } = this.#pool
    const now = env.clock.now()
    if (holds.every(({ validUntil }) => now < validUntil) && !session.ended && !this.lost && !closed) {
      this.pendingSession = undefined
      return holds
    }
    for (const hold of holds) hold.onGone()
    throw new InconclusiveError('the reply came too late')
  }

  /**
   * Parks until `watch` calls its first argument, a heartbeat finds something gone, or the wait is over. `watch` calls its second
   * argument when the watch broke: the claim then retries soon, not at once, because a cluster in trouble, with all its watches
   * broken, must not be hammered.
   * @param before the entry to wait for: every heartbeat checks it, too, because a watch may hang. Without it, the claim retries after
   * a ttl.
   * @param local it watches only once its turn to watch has come. Without it, at once.
   */
  async park(
    before: string | undefined,
    watch: (wake: () => void, broke: () => void) => () => void,
    local?: LocalWaiter,
  ): Promise<void> {
    const { clock } = this.#pool.env
    const wake = () => this.#event.set()
    const wakeAfter = (ms: number) => clock.at(clock.now() + ms, wake)
    let disarm = before === undefined ? wakeAfter(this.#claim.ttl) : undefined
    let stop: (() => void) | undefined
    const begin = () => {
      // Of many that give up together, each that leaves calls the next.
      if (this.isOver) return
      this.predecessor = before
      stop = watch(wake, () => {
        disarm?.()
        disarm = wakeAfter(this.#retryDelay())
      })
    }
    if (local === undefined || local.watches) begin()
    else local.wake = begin
    try {
      await this.sleep()
    } finally {
      if (local !== undefined) local.wake = undefined
      stop?.()
      disarm?.()
      this.predecessor = undefined
    }
  }

  /** Sleeps for `ms`, or until the event is set. */
  async sleep(ms?: number): Promise<void> {
    // Only a parked claim needs the abort signal; creating one costs more than acquiring a free lock.
    if (this.#signal === undefined) {
      this.#signal = this.#wait.signal
      this.#signal.addEventListener('abort', this.#event.set)
    }
    if (!this.isOver) await this.#event.wait(ms)
  }

  /** @throws RangeError when the semaphore is in use with another limit */
  checkLimit(ahead: readonly QueueEntry[], { mode, name }: Claim = this.#claim): void {
    const other = conflictingLimit(ahead, mode)
    if (other !== undefined) throw permitLimitError(name, other, mode.kind === 'permits' ? mode.of : 0)
  }

  async removeEntry(): Promise<void> {
    const session = this.pendingSession
    this.pendingSession = undefined
    if (session !== undefined) await this.#store.removeEntry(session)
  }

  async #try(attempt: () => Promise<Grant | undefined>): Promise<Grant | undefined> {
    try {
      return await attempt()
    } catch (error) {
      if (error instanceof RangeError) throw error
      const failure = this.#store.toFailure(error)
      if (!failure.transient) throw failure.error
      this.#report(failure)
      if (!this.isOver) await this.sleep(this.#retryDelay())
      return undefined
    }
  }

  /** Has the session less proven time left than a new lease should have? */
  #needsProof(session: Session): boolean {
    return this.#remaining(session) < this.#claim.ttl * sufficientTtl
  }

  /** Bounded, because the lock is unavailable to others meanwhile. */
  #prove(session: Session): Promise<void> {
    return session.heartbeat(Math.min(session.ttl / 6, proofTimeout))
  }

  #remaining(session: Session): number {
    return session.until - this.#pool.env.clock.now()
  }

  #report(failure: Failure): void {
    this.#lastFailure = failure
    this.#wait.report?.({ error: failure.error })
  }

  #close(): void {
    this.#pool.unregister(this.#event)
    if (this.#session !== undefined) this.#pool.releaseSession(this.#session)
  }

  #retryDelay(): number {
    return Math.min(250, this.#claim.ttl / 10) * (0.5 + this.#pool.env.random())
  }
}
