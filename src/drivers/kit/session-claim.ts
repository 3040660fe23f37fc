/**
 * Long because what a claim leaves behind at each step must be seen with it.
 *
 * One claim in the line of a store with sessions: what is alike in each is when to try again, when to rest, whom to tell of trouble,
 * and that nothing is left behind. How a place is taken and looked at is the driver's, in its `waiter.ts`.
 *
 * ```
 *   try ── granted ──────────────────────────────► Grant
 *    ▲ └── nothing, or passing trouble: a pause ─┐
 *    └──────────────────────────────────────────┘
 *          the wait is over, or refused ──► what was placed is taken away ──► nothing
 * ```
 */
import type { Claim, Grant, Wait } from '../../core/driver.js'
import { permitLimitError } from '../../core/errors.js'
import type { Bell } from './bell.js'
import { type InLine, otherLimit } from './line.js'
import type { Member, Session } from './session.js'
import type { SessionDesk } from './session-desk.js'
import type { SessionHold } from './session-hold.js'
import { Refused, type Trouble, Unsure } from './trouble.js'

export interface ClaimStore {
  troubleOf(error: unknown): Trouble
  /** Takes away what was placed under `session`; where that cannot be done at once, it is done later. */
  leave(session: Session): Promise<void>
}

export class SessionClaim implements Member {
  readonly key: string
  readonly waits = true
  before: string | undefined
  /** The place is gone for certain, with its session or alone. */
  lost = false
  /** A request was not answered: it may yet arrive, also after a later one was. */
  doubt = false
  /** Under which session something may have been placed that is not handed out. */
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

  /** One attempt. What of it may yet arrive, although another request was answered, is taken away. */
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

  /** The session that keeps the place: the one it has, while that is usable. */
  async session(): Promise<Session> {
    if (this.#kept?.usable !== true)
      this.#kept = await this.#desk.session(this.#claim.ttl, this.#claim.attempt)
    return this.#kept
  }

  /** A request that places something. Undefined: the session was over; there is a new one to be had. */
  async put<T extends { readonly repeated: boolean }>(
    session: Session,
    send: () => Promise<T>,
  ): Promise<T | undefined> {
    const fresh = this.#isOld(session) ? session.beat() : undefined
    fresh?.catch(() => undefined)
    try {
      this.placed = session
      const answer = await send()
      // The try that was not answered may yet arrive, somewhere else.
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

  /** What was placed is handed out, if enough of its session is left. */
  async granted(session: Session, holdOf: () => SessionHold): Promise<Grant> {
    const [grant] = await this.allGranted(session, () => [holdOf()] as const)
    return grant
  }

  /** As `granted`, for several that were placed in one step. */
  async allGranted<H extends readonly SessionHold[]>(session: Session, holdsOf: () => H): Promise<H> {
    if (this.#isOld(session)) await session.beat()
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
   * Rests until `watch` calls its first argument, or a beat finds something gone, or the wait is over. The second one is for a watch that
   * broke: looked at soon, not at once, for a cluster in trouble, with all its watches broken, must not be hammered.
   * @param before the key whose end is waited for: each beat asks for it, too, because a watch may hang. What no beat asks for is looked
   * at again after a ttl.
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

  /** Rests for `ms`, or until it is rung. */
  async nap(ms?: number): Promise<void> {
    // Only who rests needs to hear of the end of the wait; a signal costs more than a free lock does.
    if (this.#heeds === undefined) {
      this.#heeds = this.#wait.signal
      this.#heeds.addEventListener('abort', this.#bell.ring)
    }
    if (!this.ended) await this.#bell.rest(ms)
  }

  /** @throws RangeError when the semaphore is used with another limit */
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

  #isOld(session: Session): boolean {
    return session.until - this.#desk.env.clock.now() < this.#claim.ttl / 2
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
