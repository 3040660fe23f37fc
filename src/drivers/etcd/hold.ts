/**
 * What the driver gave: a place in line before which nothing stands in the way, kept by a lease.
 *
 * The lease may be kept alive for others long after this one is not renewed any more, so the place has an end of its own: then
 * it is removed from here. A process that is gone removes nothing, and its lease ends.
 */
import { type Clock, deadline, driftShare, margin } from '../../core/clock.js'
import type { Claim, GaveBack, Grant } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { shared } from '../../core/mode.js'
import { quote } from '../../core/name.js'
import { type Desk, paceOf } from './desk.js'
import type { Line } from './keys.js'
import { base64 } from './keys.js'
import { writtenOf } from './place.js'
import type { Member, Session } from './session.js'
import { troubleOf } from './trouble.js'
import { leave, move, rewrite } from './txns.js'

export class Hold implements Grant, Member {
  readonly token: number
  readonly key: string
  readonly waits = false
  validUntil: number
  readonly #desk: Desk
  readonly #clock: Clock
  readonly #line: Line
  #claim: Claim
  #session: Session
  #gone = false
  #asked = false
  #released = false
  readonly #since: number
  #disarm: (() => void) | undefined
  #stretch: (() => void) | undefined

  constructor(desk: Desk, line: Line, claim: Claim, session: Session, token: number, sent: number) {
    this.#desk = desk
    this.#clock = desk.env.clock
    this.#line = line
    this.#claim = claim
    this.#session = session
    this.#since = desk.client.time.now()
    this.token = token
    this.key = line.place(claim.attempt)
    const whole = deadline(sent, claim.ttl)
    this.validUntil = Math.min(whole, session.until)
    session.add(this)
    desk.keys.set(token, this.key)
    this.#endAt()
    if (session.until < whole) this.#stretchTo(whole)
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
      if (ttl > this.#session.ttl) await orAborted(this.#move(ttl), signal)
      else await orAborted(this.#session.beat(), signal)
      if (this.#gone || this.#asked || this.#clock.now() > this.validUntil + this.#late()) return undefined
      this.#claim = { ...this.#claim, ttl }
      const sent = Math.min(now, this.#session.sent)
      this.validUntil = Math.max(this.validUntil, Math.min(deadline(sent, ttl), this.#session.until))
      return this.validUntil
    } catch (error) {
      throw troubleOf(error).error
    }
  }

  async release(): Promise<GaveBack> {
    if (this.#released) return 'already-released'
    const again = this.#asked
    this.#asked = true
    const { client } = this.#desk
    try {
      const { is, repeated } = await client.remove(this.key)
      this.#released = true
      this.#drop()
      if (is.deleted === '1') return 'released'
      // Nobody can have taken it while it was proven, so "not there" then means that the first request did it.
      return (again || repeated) && this.#clock.now() < this.validUntil ? 'already-released' : 'lost'
    } catch (error) {
      // It may run into its end while the core tries again: the end removes the place, too.
      throw troubleOf(error).error
    }
  }

  async downgrade(): Promise<void> {
    const { client, env } = this.#desk
    const claim = { ...this.#claim, mode: shared }
    const value = base64(writtenOf(claim, this.#since, env.by))
    try {
      const { is } = await client.txn(rewrite(this.key, this.token, value, this.#session.id))
      if (is.succeeded !== true)
        throw new BackendError('etcd', `cannot downgrade ${quote(claim.name)}: it is not held`)
      this.#claim = claim
    } catch (error) {
      throw troubleOf(error).error
    }
  }

  /** To a lease that lasts long enough. The place in line stays: it is where the key was made. */
  async #move(ttl: number): Promise<void> {
    const desk = this.#desk
    const session = await desk.session(ttl)
    const { is } = await desk.client.txn(move(this.key, this.token, session.id))
    if (is.succeeded !== true) return this.gone()
    const before = this.#session
    before.drop(this)
    desk.done(before)
    this.#session = session
    if (!this.#gone && !this.#released) session.add(this)
  }

  #endAt(): void {
    const at = this.validUntil + this.#late()
    const end = () => {
      if (this.#clock.now() < this.validUntil + this.#late()) return this.#endAt()
      void this.#desk.chase(leave(this.#line, this.#claim.attempt), this.#session, paceOf(this.#claim))
      this.#drop()
    }
    this.#disarm = this.#clock.at(at, end, { ref: false })
  }

  /** How much later than here it may be over for others. */
  #late(): number {
    return this.#claim.ttl * driftShare + margin
  }

  /** The lease was proven a while ago: a section that lasts gets its whole ttl, a short one sends nothing. */
  #stretchTo(whole: number): void {
    const prove = () => {
      const stretch = () => {
        if (!this.#gone && !this.#asked && this.#clock.now() < this.validUntil)
          this.validUntil = Math.max(this.validUntil, Math.min(whole, this.#session.until))
      }
      this.#session.beat().then(stretch, () => undefined)
    }
    this.#stretch = this.#clock.at(this.#clock.now() + this.#claim.ttl / 20, prove, { ref: false })
  }

  #drop(): void {
    this.#disarm?.()
    this.#stretch?.()
    this.#disarm = undefined
    this.#session.drop(this)
    if (this.#desk.keys.get(this.token) === this.key) this.#desk.keys.delete(this.token)
    this.#desk.done(this.#session)
  }
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = () => reject(signal.reason)
    signal.addEventListener('abort', end)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
    if (signal.aborted) end()
  })
}
