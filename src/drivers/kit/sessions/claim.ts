/**
 * One claim in the queue of a store with sessions: when to retry, when to rest, where to report trouble, and that nothing stays
 * behind. How a queue entry is made and read is the driver's part, in its `waiter.ts`.
 *
 * ```
 *   try ── granted ──────────────────────────────► Grant
 *    ▲ └─ nothing, or temporary trouble: pause ─┐
 *    └──────────────────────────────────────────┘
 *          the wait is over, or refused ──► the queue entry is removed ──► nothing
 * ```
 * Long because what a claim leaves behind at each step must be visible beside that step.
 */
import type { Claim, Grant, Wait } from '../../../core/driver.js'
import { permitLimitError } from '../../../core/errors.js'
import type { Bell } from '../auto-reset-event.js'
import { Refused, type Trouble, Unsure } from '../failure.js'
import type { SessionHold } from './hold.js'
import { type InLine, otherLimit } from './order.js'
import type { Member, Session } from './session.js'
import type { SessionDesk } from './session-pool.js'

/** The share of its ttl a lease has left when granted. With less left, the session is proven again first. A little more than promised. */
const worth = 0.93
const leastWorth = 0.62
/** How long proving a session may delay a lease that is about to be granted, in ms. */
const longestProof = 1_000

export interface ClaimStore {
  troubleOf(error: unknown): Trouble
  /** Removes what was placed under `session`; later, if that is not possible at once. */
  leave(session: Session): Promise<void>
}

export class SessionClaim implements Member {
  readonly key: string
  readonly waits = true
  before: string | undefined
  /** The queue entry is certainly gone, with its session or alone. */
  lost = false
  /** A request had no answer: it may still arrive, even after a later one. */
  doubt = false
  /** The session under which an entry may exist that has not been handed out as a grant. */
  placed: Session | undefined
  readonly #desk: SessionDesk
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #store: ClaimStore
  readonly #bell: Bell
  #heeds: AbortSignal | undefined
  #kept: Session | undefined
  #trouble: Trouble | undefined

  constructor(desk: SessionDesk, claim: Claim, wait: Wait, key: string, store: ClaimStore) {
    this.#desk = desk
    this.#claim = claim
    this.#wait = wait
    this.#store = store
    this.#bell = desk.bell()
    this.key = key
  }

  gone(): void {
    this.lost = true
    this.#bell.ring()
  }

  wake(): void {
    this.#bell.ring()
  }

  trouble(error: unknown): void {
    this.#note(this.#store.troubleOf(error))
  }

  /** The store has answered. */
  answered(): void {
    this.#trouble = undefined
  }

  get ended(): boolean {
    return this.#wait.over || this.#desk.closed
  }

  /** One attempt; removes whatever an unanswered duplicate may still create. */
  async once<G>(attempt: () => Promise<G | undefined>): Promise<G | undefined> {
    try {
      const given = await attempt()
      if (given === undefined) await this.leave()
      return given
    } catch (error) {
      await this.leave()
      throw error instanceof RangeError ? error : this.#store.troubleOf(error).error
    } finally {
      this.#over()
    }
  }

  /** Attempts until the wait is over. */
  async long(attempt: () => Promise<Grant | undefined>): Promise<Grant | undefined> {
    try {
      while (!this.ended) {
        const grant = await this.#try(attempt)
        if (grant !== undefined) return grant
      }
      await this.leave()
      if (this.#trouble !== undefined && !this.#desk.closed) throw this.#trouble.error
      return undefined
    } catch (error) {
      await this.leave()
      throw error
    } finally {
      this.#heeds?.removeEventListener('abort', this.#bell.ring)
      this.#over()
    }
  }

  /** The session that keeps the queue entry: the current one while it is usable, else a new one. */
  async session(): Promise<Session> {
    if (this.#kept?.usable !== true)
      this.#kept = await this.#desk.session(this.#claim.ttl, this.#claim.attempt)
    return this.#kept
  }

  /** Sends a request that places something. Undefined: the session had ended; {@link session} makes a new one. */
  async put<T extends { readonly repeated: boolean }>(
    session: Session,
    send: () => Promise<T>,
  ): Promise<T | undefined> {
    const fresh = this.#isOld(session) ? this.#prove(session) : undefined
    fresh?.catch(() => undefined)
    try {
      this.placed = session
      const answer = await send()
      // The unanswered try may still arrive, elsewhere.
      this.doubt ||= answer.repeated
      if (fresh !== undefined) await fresh.catch(() => undefined)
      return answer
    } catch (error) {
      if (error instanceof Refused && error.noSession) {
        session.end()
        return undefined
      }
      this.doubt ||= this.#store.troubleOf(error).doubtful
      throw error
    }
  }

  /** Hands out what was placed, if enough of its session is left. */
  async granted(session: Session, holdOf: () => SessionHold): Promise<Grant> {
    const [grant] = await this.allGranted(session, () => [holdOf()] as const)
    return grant
  }

  /** Like `granted`, for several entries placed in one step. */
  async allGranted<H extends readonly SessionHold[]>(session: Session, holdsOf: () => H): Promise<H> {
    // A lease has its ttl left when it is handed out. If the session cannot be proven again now, it must at least last as long
    // as that of a lease that is passed on.
    if (this.#isOld(session)) {
      await this.#prove(session).catch((error: unknown) => {
        if (this.#leftOf(session) < this.#claim.ttl * leastWorth) throw error
      })
    }
    const holds = holdsOf()
    const { env, closed } = this.#desk
    const now = env.clock.now()
    if (holds.every(({ validUntil }) => now < validUntil) && !session.dead && !this.lost && !closed) {
      this.placed = undefined
      return holds
    }
    for (const hold of holds) hold.gone()
    throw new Unsure('the answer came too late')
  }

  /**
   * Rests until `watch` calls its first argument, a heartbeat finds something gone, or the wait is over. `watch` calls its second
   * argument when the watch broke: the claim then retries soon, not at once, because a cluster in trouble, with all its watches
   * broken, must not be hammered.
   * @param before the key to wait for: every heartbeat checks it, too, because a watch may hang. Without it, the claim retries after
   * a ttl.
   */
  async rest(
    before: string | undefined,
    watch: (wake: () => void, broke: () => void) => () => void,
  ): Promise<void> {
    const { clock } = this.#desk.env
    const wake = () => this.#bell.ring()
    const wakeIn = (ms: number) => clock.at(clock.now() + ms, wake)
    let disarm = before === undefined ? wakeIn(this.#claim.ttl) : undefined
    this.before = before
    const stop = watch(wake, () => {
      disarm?.()
      disarm = wakeIn(this.#pause())
    })
    try {
      await this.nap()
    } finally {
      stop()
      disarm?.()
      this.before = undefined
    }
  }

  /** Rests for `ms`, or until the bell is rung. */
  async nap(ms?: number): Promise<void> {
    // Only a resting claim needs the abort signal; creating one costs more than acquiring a free lock.
    if (this.#heeds === undefined) {
      this.#heeds = this.#wait.signal
      this.#heeds.addEventListener('abort', this.#bell.ring)
    }
    if (!this.ended) await this.#bell.rest(ms)
  }

  /** @throws RangeError when the semaphore is in use with another limit */
  refuseLimit(ahead: readonly InLine[], { mode, name }: Claim = this.#claim): void {
    const other = otherLimit(ahead, mode)
    if (other !== undefined) throw permitLimitError(name, other, mode.kind === 'permits' ? mode.of : 0)
  }

  async leave(): Promise<void> {
    const session = this.placed
    this.placed = undefined
    if (session !== undefined) await this.#store.leave(session)
  }

  async #try(attempt: () => Promise<Grant | undefined>): Promise<Grant | undefined> {
    try {
      return await attempt()
    } catch (error) {
      if (error instanceof RangeError) throw error
      const trouble = this.#store.troubleOf(error)
      if (!trouble.passing) throw trouble.error
      this.#note(trouble)
      if (!this.ended) await this.nap(this.#pause())
      return undefined
    }
  }

  /** Has the session less proven time left than a new lease should have? */
  #isOld(session: Session): boolean {
    return this.#leftOf(session) < this.#claim.ttl * worth
  }

  /** Bounded, because the lock is unavailable to others meanwhile. */
  #prove(session: Session): Promise<void> {
    return session.beat(Math.min(session.ttl / 6, longestProof))
  }

  #leftOf(session: Session): number {
    return session.until - this.#desk.env.clock.now()
  }

  #note(trouble: Trouble): void {
    this.#trouble = trouble
    this.#wait.blocked?.({ trouble: trouble.error })
  }

  #over(): void {
    this.#desk.quit(this.#bell)
    if (this.#kept !== undefined) this.#desk.done(this.#kept)
  }

  #pause(): number {
    return Math.min(250, this.#claim.ttl / 10) * (0.5 + this.#desk.env.random())
  }
}
