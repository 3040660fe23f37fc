/**
 * A grant that is a queue entry, kept by a session.
 *
 * The session may be kept alive for other grants long after this one is no longer renewed, so the entry has a deadline of its own,
 * at which this process removes it. A crashed process removes nothing, but its session ends.
 *
 * Long because everything that ends an entry (its time, its session, its release) is in one file.
 */
import { type Clock, deadline, maxClockDrift, safetyMargin } from '../../../core/clock.js'
import type { Grant, ReleaseResult } from '../../../core/driver.js'
import { LossNotice } from '../../../core/loss-notice.js'
import { orAborted } from '../../../core/or-aborted.js'
import type { Session, SessionEntry } from './session.js'
import type { SessionPool } from './session-pool.js'

/** The store's operations on one queue entry. Each may run twice. */
export interface EntryStore {
  readonly attempt: string
  /** The key by which the session's heartbeats check the entry. May change when the entry is moved or downgraded. */
  readonly key: string
  /** `was`: the entry existed. `repeated`: an earlier, unanswered try may have been executed. */
  remove(): Promise<{ readonly existed: boolean; readonly repeated: boolean }>
  /**
   * Moves the entry to another session without changing its queue position; an earlier move still in flight has no effect after that.
   * False: the entry no longer exists.
   */
  move(from: Session, to: Session): Promise<boolean>
  /** Turns a writer into a reader without changing its queue position. @throws when the lock is not held */
  downgrade(session: Session): Promise<void>
  /** Mints the next token by a write that succeeds only while the entry exists. Undefined: it is gone, or must not be passed on. */
  mint(session: Session): Promise<number | undefined>
  /** Called when the grant is no longer held. */
  onEnded(): void
  /** Converts an error into the one thrown to the core. */
  toError(error: unknown): Error
}

export class SessionHold implements Grant, SessionEntry {
  readonly token: number
  readonly waits = false
  validUntil: number
  readonly #pool: SessionPool
  readonly #clock: Clock
  readonly #entry: EntryStore
  readonly lost: LossNotice = new LossNotice()
  #ttl: number
  /** The deadline by the newest ttl alone, however long the session lasts. */
  #fullDeadline: number
  #session: Session
  #hasEnded = false
  #releasing = false
  #released = false
  /** A move or a mint is under way. */
  #moving: Promise<void> | undefined
  /** An unanswered move, with its ttl and target session: the store may have executed it, or may do so later. */
  #unansweredMove: { readonly ttl: number; readonly session: Session } | undefined
  #disarm: (() => void) | undefined
  #stopExtend: (() => void) | undefined

  /** @param sent clock reading before the request left that found nothing in the way of the claim */
  constructor(
    pool: SessionPool,
    entry: EntryStore,
    session: Session,
    token: number,
    sent: number,
    ttl: number,
  ) {
    this.#pool = pool
    this.#clock = pool.env.clock
    this.#entry = entry
    this.#session = session
    this.#ttl = ttl
    this.token = token
    this.#fullDeadline = deadline(sent, ttl)
    this.validUntil = Math.min(this.#fullDeadline, session.until)
    session.add(this)
    this.#scheduleEnd()
    if (session.until < this.#fullDeadline) this.#extendAfter(ttl / 20)
  }

  get key(): string {
    return this.#entry.key
  }

  onGone(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#drop()
    // The entry is also gone when its own holder released it.
    if (this.#releasing) return
    this.validUntil = Number.NEGATIVE_INFINITY
    this.lost.abort(
      this.#entry.toError(
        new Error('its entry in the store is gone: it was removed, or its session has ended'),
      ),
    )
  }

  onWake(): void {}
  onFailure(): void {}

  async renew(ttl: number, signal: AbortSignal): Promise<number | undefined> {
    if (this.#hasEnded || this.#releasing) return undefined
    try {
      const now = this.#clock.now()
      // Keeping a session alive that the entry may have left proves nothing: first settle where the entry is, and never by moving back.
      const least = Math.max(ttl, this.#unansweredMove?.ttl ?? 0)
      if (least > this.#session.ttl) await orAborted(this.#move(least), signal)
      else await orAborted(this.#session.heartbeat(), signal)
      if (this.#hasEnded || this.#releasing || this.#clock.now() > this.validUntil + this.#slack())
        return undefined
      this.#ttl = ttl
      this.#fullDeadline = deadline(Math.min(now, this.#session.sent), ttl)
      const before = this.validUntil
      this.validUntil = Math.min(this.#fullDeadline, this.#session.until)
      if (this.validUntil < before) this.#scheduleEnd()
      return this.validUntil
    } catch (error) {
      throw this.#entry.toError(error)
    }
  }

  async release(): Promise<ReleaseResult> {
    if (this.#released) return 'already-released'
    const again = this.#releasing
    this.#releasing = true
    try {
      const { existed, repeated } = await this.#entry.remove()
      this.#released = true
      this.#drop()
      if (existed) return 'released'
      // While the grant was proven no other client can have taken the lock, so "not there" means that the first request removed the entry.
      return (again || repeated) && this.#clock.now() < this.validUntil ? 'already-released' : 'lost'
    } catch (error) {
      // The deadline passes while the core retries, and removes the entry, too.
      throw this.#entry.toError(error)
    }
  }

  /** After a failure the core releases the grant, and with it whatever token the store may have minted. */
  async nextToken(): Promise<number | undefined> {
    while (this.#moving !== undefined) await this.#moving
    // A move without an answer may still be carried out, and would undo what a pass writes.
    if (this.#hasEnded || this.#releasing || this.#unansweredMove !== undefined) return undefined
    const minting = this.#entry.mint(this.#session)
    const settled = () => {
      this.#moving = undefined
    }
    this.#moving = minting.then(settled, settled)
    try {
      const token = await minting
      if (!this.#hasEnded && !this.#releasing) return token
      // The entry has ended, and must not be found by the token of this late answer.
      this.#entry.onEnded()
      return undefined
    } catch (error) {
      throw this.#entry.toError(error)
    }
  }

  async downgrade(): Promise<void> {
    try {
      await this.#entry.downgrade(this.#session)
    } catch (error) {
      throw this.#entry.toError(error)
    }
  }

  /** Moves the entry to a session that lasts long enough. Manual and automatic renewals may run at the same time: one moves, the others wait. */
  async #move(ttl: number): Promise<void> {
    while (this.#moving !== undefined) await this.#moving
    if (this.#hasEnded || ttl <= this.#session.ttl) return
    this.#moving = this.#moveOnce(ttl).finally(() => {
      this.#moving = undefined
    })
    await this.#moving
  }

  async #moveOnce(ttl: number): Promise<void> {
    const pool = this.#pool
    const session = await pool.session(ttl, this.#entry.attempt)
    const before = this.#session
    this.#unansweredMove = { ttl, session }
    const there = await this.#entry.move(before, session)
    this.#unansweredMove = undefined
    if (!there) return this.onGone()
    before.drop(this)
    pool.releaseSession(before)
    this.#session = session
    if (!this.#hasEnded && !this.#released) session.add(this)
  }

  #scheduleEnd(): void {
    this.#disarm?.()
    const at = this.validUntil + this.#slack()
    const end = () => {
      if (this.#clock.now() < this.validUntil + this.#slack()) return this.#scheduleEnd()
      const removed = () => this.#entry.remove().then(() => true)
      void this.#pool.retryUntilDone(removed, this.#unansweredMove?.session ?? this.#session, this.#ttl / 6)
      this.#drop()
    }
    this.#disarm = this.#clock.at(at, end, { ref: false })
  }

  /** How much later than by our clock the grant may end for others. */
  #slack(): number {
    return this.#ttl * maxClockDrift + safetyMargin
  }

  /** The session was proven a while ago: a long critical section gets its whole ttl, a short one sends nothing. */
  #extendAfter(delay: number): void {
    const stretch = () => {
      if (!this.#hasEnded && !this.#releasing && this.#clock.now() < this.validUntil)
        this.validUntil = Math.max(this.validUntil, Math.min(this.#fullDeadline, this.#session.until))
    }
    const prove = () => void this.#session.heartbeat().then(stretch, () => undefined)
    this.#stopExtend = this.#clock.at(this.#clock.now() + delay, prove, { ref: false })
  }

  #drop(): void {
    this.#disarm?.()
    this.#stopExtend?.()
    this.#disarm = undefined
    this.#session.drop(this)
    this.#entry.onEnded()
    this.#pool.releaseSession(this.#session)
  }
}
