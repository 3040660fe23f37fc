/**
 * A grant that is a place in line, kept by a session.
 *
 * The session may be kept alive for others long after this one is not renewed any more, so the place has an end of its own: then
 * it is removed from here. A process that is gone removes nothing, and its session ends.
 */
import { type Clock, deadline, driftShare, margin } from '../../core/clock.js'
import type { GaveBack, Grant } from '../../core/driver.js'
import { unlessAborted } from '../../core/unless-aborted.js'
import type { Member, Session } from './session.js'
import type { SessionDesk } from './session-desk.js'

/** What the store does with one place. All of it may run twice. */
export interface PlaceStore {
  readonly attempt: string
  /** As the session's beats know it; it may change when the place is moved or downgraded. */
  readonly key: string
  /** True: it was there. `repeated`: an earlier try may have been carried out without an answer. */
  remove(): Promise<{ readonly was: boolean; readonly repeated: boolean }>
  /**
   * Puts it under another session, where it stands; whatever is on its way of an earlier move does nothing any more then. False: it is not
   * there any more.
   */
  move(from: Session, to: Session): Promise<boolean>
  /** Makes a reader of a writer, where it stands. @throws when it is not held */
  downgrade(session: Session): Promise<void>
  /** It is not held any more. */
  ended(): void
  /** What is thrown to the core. */
  told(error: unknown): Error
}

export class SessionHold implements Grant, Member {
  readonly token: number
  readonly waits = false
  validUntil: number
  readonly #desk: SessionDesk
  readonly #clock: Clock
  readonly #place: PlaceStore
  #ttl: number
  #session: Session
  #gone = false
  #asked = false
  #released = false
  #moving: Promise<void> | undefined
  /** A move that was not answered: it may have been carried out, or may yet be. For how long was asked, and where it goes. */
  #unsure: { readonly ttl: number; readonly session: Session } | undefined
  #disarm: (() => void) | undefined
  #stretch: (() => void) | undefined

  /** @param sent clock reading before the request left that found nothing in the way */
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
    const whole = deadline(sent, ttl)
    this.validUntil = Math.min(whole, session.until)
    session.add(this)
    this.#endAt()
    if (session.until < whole) this.#stretchTo(whole)
  }

  get key(): string {
    return this.#place.key
  }

  gone(): void {
    this.#gone = true
    this.#drop()
  }

  wake(): void {}
  trouble(): void {}

  async renew(ttl: number, signal: AbortSignal): Promise<number | undefined> {
    if (this.#gone || this.#asked) return undefined
    try {
      const now = this.#clock.now()
      // To keep the session that it may have left is no proof: first it is made sure where it is, and never by going back.
      const least = Math.max(ttl, this.#unsure?.ttl ?? 0)
      if (least > this.#session.ttl) await unlessAborted(this.#move(least), signal)
      else await unlessAborted(this.#session.beat(), signal)
      if (this.#gone || this.#asked || this.#clock.now() > this.validUntil + this.#late()) return undefined
      this.#ttl = ttl
      const sent = Math.min(now, this.#session.sent)
      this.validUntil = Math.max(this.validUntil, Math.min(deadline(sent, ttl), this.#session.until))
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
      // Nobody can have taken it while it was proven, so "not there" then means that the first request did it.
      return (again || repeated) && this.#clock.now() < this.validUntil ? 'already-released' : 'lost'
    } catch (error) {
      // It runs into its end while the core tries again: the end removes the place, too.
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

  /** To a session that lasts long enough. Renewals may come at once, by hand and by itself: one of them moves it, the others wait. */
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
    const at = this.validUntil + this.#late()
    const end = () => {
      if (this.#clock.now() < this.validUntil + this.#late()) return this.#endAt()
      const removed = () => this.#place.remove().then(() => true)
      void this.#desk.chase(removed, this.#unsure?.session ?? this.#session, this.#ttl / 6)
      this.#drop()
    }
    this.#disarm = this.#clock.at(at, end, { ref: false })
  }

  /** How much later than here it may be over for others. */
  #late(): number {
    return this.#ttl * driftShare + margin
  }

  /** The session was proven a while ago: a section that lasts gets its whole ttl, a short one sends nothing. */
  #stretchTo(whole: number): void {
    const prove = () => {
      const stretch = () => {
        if (!this.#gone && !this.#asked && this.#clock.now() < this.validUntil)
          this.validUntil = Math.max(this.validUntil, Math.min(whole, this.#session.until))
      }
      this.#session.beat().then(stretch, () => undefined)
    }
    this.#stretch = this.#clock.at(this.#clock.now() + this.#ttl / 20, prove, { ref: false })
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
