/**
 * A grant that is a queue entry, kept by a session.
 *
 * The session may be kept alive for other grants long after this one is no longer renewed, so the entry has a deadline of its own,
 * at which this process removes it. A crashed process removes nothing, but its session ends.
 *
 * Long because everything that ends an entry (its time, its session, its release) is in one file.
 */
import { type Clock, deadline, driftShare, margin } from '../../../core/clock.js'
import type { GaveBack, Grant } from '../../../core/driver.js'
import { unlessAborted } from '../../../core/unless-aborted.js'
import type { Member, Session } from './session.js'
import type { SessionDesk } from './session-pool.js'

/** The store's operations on one queue entry. Each may run twice. */
export interface PlaceStore {
  readonly attempt: string
  /** The key by which the session's heartbeats check the entry. May change when the entry is moved or downgraded. */
  readonly key: string
  /** `was`: the entry existed. `repeated`: an earlier, unanswered try may have been executed. */
  remove(): Promise<{ readonly was: boolean; readonly repeated: boolean }>
  /**
   * Moves the entry to another session without changing its queue position; an earlier move still in flight has no effect after that.
   * False: the entry no longer exists.
   */
  move(from: Session, to: Session): Promise<boolean>
  /** Turns a writer into a reader without changing its queue position. @throws when the lock is not held */
  downgrade(session: Session): Promise<void>
  /** Called when the grant is no longer held. */
  ended(): void
  /** Converts an error into the one thrown to the core. */
  told(error: unknown): Error
}

export class SessionHold implements Grant, Member {
  readonly token: number
  readonly waits = false
  validUntil: number
  readonly #desk: SessionDesk
  readonly #clock: Clock
  readonly #place: PlaceStore
  readonly #lost = new AbortController()
  #ttl: number
  /** The deadline by the newest ttl alone, however long the session lasts. */
  #whole: number
  #session: Session
  #gone = false
  #asked = false
  #released = false
  #moving: Promise<void> | undefined
  /** An unanswered move, with its ttl and target session: the store may have executed it, or may do so later. */
  #unsure: { readonly ttl: number; readonly session: Session } | undefined
  #disarm: (() => void) | undefined
  #stretch: (() => void) | undefined

  /** @param sent clock reading before the request left that found nothing in the way of the claim */
  constructor(
    desk: SessionDesk,
    place: PlaceStore,
    session: Session,
    token: number,
    sent: number,
    ttl: number,
  ) {
    this.#desk = desk
    this.#clock = desk.env.clock
    this.#place = place
    this.#session = session
    this.#ttl = ttl
    this.token = token
    this.#whole = deadline(sent, ttl)
    this.validUntil = Math.min(this.#whole, session.until)
    session.add(this)
    this.#endAt()
    if (session.until < this.#whole) this.#stretchAfter(ttl / 20)
  }

  get key(): string {
    return this.#place.key
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  gone(): void {
    if (this.#gone) return
    this.#gone = true
    this.#drop()
    // The entry is also gone when its own holder released it.
    if (this.#asked) return
    this.validUntil = Number.NEGATIVE_INFINITY
    this.#lost.abort(
      this.#place.told(new Error('its place in the store is gone: it was removed, or its session has ended')),
    )
  }

  wake(): void {}
  trouble(): void {}

  async renew(ttl: number, signal: AbortSignal): Promise<number | undefined> {
    if (this.#gone || this.#asked) return undefined
    try {
      const now = this.#clock.now()
      // Keeping a session alive that the entry may have left proves nothing: first settle where the entry is, and never by moving back.
      const least = Math.max(ttl, this.#unsure?.ttl ?? 0)
      if (least > this.#session.ttl) await unlessAborted(this.#move(least), signal)
      else await unlessAborted(this.#session.beat(), signal)
      if (this.#gone || this.#asked || this.#clock.now() > this.validUntil + this.#late()) return undefined
      this.#ttl = ttl
      this.#whole = deadline(Math.min(now, this.#session.sent), ttl)
      const before = this.validUntil
      this.validUntil = Math.min(this.#whole, this.#session.until)
      if (this.validUntil < before) this.#endAt()
      return this.validUntil
    } catch (error) {
      throw this.#place.told(error)
    }
  }

  async release(): Promise<GaveBack> {
    if (this.#released) return 'already-released'
    const again = this.#asked
    this.#asked = true
    try {
      const { was, repeated } = await this.#place.remove()
      this.#released = true
      this.#drop()
      if (was) return 'released'
      // While the grant was proven no other client can have taken the lock, so "not there" means that the first request removed the entry.
      return (again || repeated) && this.#clock.now() < this.validUntil ? 'already-released' : 'lost'
    } catch (error) {
      // The deadline passes while the core retries, and removes the entry, too.
      throw this.#place.told(error)
    }
  }

  async downgrade(): Promise<void> {
    try {
      await this.#place.downgrade(this.#session)
    } catch (error) {
      throw this.#place.told(error)
    }
  }

  /** Moves the entry to a session that lasts long enough. Manual and automatic renewals may run at the same time: one moves, the others wait. */
  async #move(ttl: number): Promise<void> {
    while (this.#moving !== undefined) await this.#moving
    if (this.#gone || ttl <= this.#session.ttl) return
    this.#moving = this.#moveOnce(ttl).finally(() => {
      this.#moving = undefined
    })
    await this.#moving
  }

  async #moveOnce(ttl: number): Promise<void> {
    const desk = this.#desk
    const session = await desk.session(ttl, this.#place.attempt)
    const before = this.#session
    this.#unsure = { ttl, session }
    const there = await this.#place.move(before, session)
    this.#unsure = undefined
    if (!there) return this.gone()
    before.drop(this)
    desk.done(before)
    this.#session = session
    if (!this.#gone && !this.#released) session.add(this)
  }

  #endAt(): void {
    this.#disarm?.()
    const at = this.validUntil + this.#late()
    const end = () => {
      if (this.#clock.now() < this.validUntil + this.#late()) return this.#endAt()
      const removed = () => this.#place.remove().then(() => true)
      void this.#desk.chase(removed, this.#unsure?.session ?? this.#session, this.#ttl / 6)
      this.#drop()
    }
    this.#disarm = this.#clock.at(at, end, { ref: false })
  }

  /** How much later than by our clock the grant may end for others. */
  #late(): number {
    return this.#ttl * driftShare + margin
  }

  /** The session was proven a while ago: a long critical section gets its whole ttl, a short one sends nothing. */
  #stretchAfter(delay: number): void {
    const stretch = () => {
      if (!this.#gone && !this.#asked && this.#clock.now() < this.validUntil)
        this.validUntil = Math.max(this.validUntil, Math.min(this.#whole, this.#session.until))
    }
    const prove = () => void this.#session.beat().then(stretch, () => undefined)
    this.#stretch = this.#clock.at(this.#clock.now() + delay, prove, { ref: false })
  }

  #drop(): void {
    this.#disarm?.()
    this.#stretch?.()
    this.#disarm = undefined
    this.#session.drop(this)
    this.#place.ended()
    this.#desk.done(this.#session)
  }
}
