/**
 * Long because one claim's way through the line is one loop, and what it leaves behind at each step must be seen with it.
 *
 * ```
 *   enter: one transaction puts the place and reads what is before it ── nothing in the way ──► granted
 *     │ something is
 *     ▼
 *   wait: watch the one place in the way, from the revision that was read, so that nothing between is missed
 *     │ it is gone · the watch broke · the line's past was compacted · a beat found it gone
 *     ▼
 *   look: is the own place still there, and what is before it now? ── nothing ──► granted;  not there ──► enter again
 * ```
 * The look matters: a lease that ended while its owner waited has taken the place with it, and somebody else may hold.
 */
import type { Claim, Grant, Wait } from '../../core/driver.js'
import { permitLimitError } from '../../core/errors.js'
import type { Bell } from '../kit/bell.js'
import { holdersIn, holds, inTheWay, otherLimit } from '../kit/line.js'
import type { Member, Session } from '../kit/session.js'
import type { Desk } from './desk.js'
import { holdOf } from './hold.js'
import { base64, type Line } from './keys.js'
import { type Ahead, inOrder, worthAsking } from './line.js'
import { holderOf, type Place, placeOf, writtenOf } from './place.js'
import { Refusal, type Trouble, troubleOf, Unsure } from './trouble.js'
import { enter, giveUp, join, leave, look, move, takeEmpty } from './txns.js'
import type { RangeAsk, TxnReply, WatchReply } from './wire.js'

/** A place in line, and what is before it as of `revision`. */
interface Stand {
  readonly session: Session
  readonly token: number
  readonly ahead: Ahead
  readonly revision: string
  /** Clock reading before the request that told it left. */
  readonly sent: number
}

/** One try beside others is repeated when the line moved meanwhile, but not for ever. */
const mostJoins = 20

export class Waiter implements Member {
  readonly key: string
  readonly waits = true
  before: string | undefined
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #line: Line
  readonly #bell: Bell
  #lost = false
  /** A request was not answered: it may yet arrive, also after a later one was. */
  #doubt = false
  #placed: Session | undefined
  #kept: Session | undefined
  #trouble: Trouble | undefined

  constructor(desk: Desk, claim: Claim, wait: Wait) {
    this.#desk = desk
    this.#claim = claim
    this.#wait = wait
    this.#line = desk.line(claim.name)
    this.#bell = desk.bell()
    this.key = this.#line.place(claim.attempt)
  }

  gone(): void {
    this.#lost = true
    this.#bell.ring()
  }

  wake(): void {
    this.#bell.ring()
  }

  trouble(error: unknown): void {
    this.#note(troubleOf(error))
  }

  /** One attempt: takes a place only if it holds. */
  async once(): Promise<Grant | undefined> {
    const { attempt, mode } = this.#claim
    let seen: string | undefined
    try {
      for (let tries = 0; tries < mostJoins; tries++) {
        const session = await this.#session()
        const value = this.#value()
        const { id } = session
        const ask =
          seen === undefined
            ? takeEmpty(this.#line, attempt, value, id)
            : join(this.#line, attempt, value, id, seen)
        const answer = await this.#put(session, ask)
        if (answer === undefined) continue
        const { is, sent } = answer
        if (is.succeeded === true) return await this.#granted(session, Number(is.header.revision), sent)
        const { own, ahead } = this.#read(is)
        if (own !== undefined) {
          if (!holds(ahead.places, mode)) this.#placed = undefined
          return holds(ahead.places, mode) ? await this.#granted(session, own.token, sent) : undefined
        }
        this.#placed = undefined
        this.#refuseLimit(ahead)
        if (!holds(ahead.places, mode)) {
          this.#blocked(ahead)
          return undefined
        }
        seen = is.header.revision
      }
      return undefined
    } catch (error) {
      await this.#leave()
      throw error instanceof RangeError ? error : troubleOf(error).error
    } finally {
      this.#over()
    }
  }

  /** Until the wait is over. */
  async long(): Promise<Grant | undefined> {
    const { ring } = this.#bell
    const { signal } = this.#wait
    signal.addEventListener('abort', ring)
    try {
      while (!this.#ended) {
        const grant = await this.#try()
        if (grant !== undefined) return grant
      }
      await this.#leave()
      if (this.#trouble !== undefined && !this.#desk.closed) throw this.#trouble.error
      return undefined
    } catch (error) {
      await this.#leave()
      throw error
    } finally {
      signal.removeEventListener('abort', ring)
      this.#over()
    }
  }

  get #ended(): boolean {
    return this.#wait.over || this.#desk.closed
  }

  async #try(): Promise<Grant | undefined> {
    try {
      const stand = await this.#enter()
      return stand && (await this.#stand(stand))
    } catch (error) {
      if (error instanceof RangeError) throw error
      const trouble = troubleOf(error)
      if (!trouble.passing) throw trouble.error
      this.#note(trouble)
      if (!this.#ended) await this.#bell.rest(this.#pause())
      return undefined
    }
  }

  /** Takes a place, or finds the one it has. Undefined: to be tried again. */
  async #enter(): Promise<Stand | undefined> {
    const { attempt, mode } = this.#claim
    const session = await this.#session()
    const answer = await this.#put(session, enter(this.#line, attempt, mode, this.#value(), session.id))
    if (answer === undefined) return undefined
    const { is, sent } = answer
    const revision = is.header.revision ?? '0'
    this.#trouble = undefined
    if (is.succeeded === true) {
      return { session, token: Number(revision), ahead: aheadIn(is), revision, sent }
    }
    const { own, ahead } = this.#read(is)
    if (own === undefined) throw new Error('this attempt has been given up before')
    // From an earlier lease, which is at its end: the place itself need not be lost.
    if (own.lease !== session.id) {
      const moved = await this.#desk.client.txn(move(this.key, own.token, session.id))
      if (moved.is.succeeded !== true) return undefined
    }
    return { session, token: own.token, ahead, revision, sent }
  }

  async #stand(stand: Stand): Promise<Grant | undefined> {
    const { session, token } = stand
    const { mode } = this.#claim
    this.#lost = false
    let { ahead, revision, sent } = stand
    session.add(this)
    try {
      for (;;) {
        this.#refuseLimit(ahead)
        if (holds(ahead.places, mode)) return await this.#granted(session, token, sent)
        this.#blocked(ahead)
        await this.#untilMoved(ahead, revision)
        if (this.#lost || this.#ended) return undefined
        const answer = await this.#desk.client.txn(look(this.#line, this.#claim.attempt, mode, token))
        this.#trouble = undefined
        if (answer.is.succeeded !== true) {
          this.#placed = undefined
          return undefined
        }
        ahead = aheadIn(answer.is)
        revision = answer.is.header.revision ?? revision
        sent = answer.sent
      }
    } finally {
      session.drop(this)
    }
  }

  async #untilMoved(ahead: Ahead, revision: string): Promise<void> {
    const { mode } = this.#claim
    const one = inTheWay(ahead.places, mode)
    this.before = one?.key
    const range: RangeAsk = one === undefined ? this.#line.all : { key: one.key }
    const known = new Map(ahead.places.map((place) => [place.key, place]))
    const heard = ({ result }: WatchReply) => {
      if (result?.canceled === true || (result?.events && worthAsking(known, mode, result.events)))
        this.wake()
    }
    // Only readers wait for something else than an end: a writer may become one of them.
    const filters = mode.kind === 'shared' ? {} : { filters: ['NOPUT'] }
    const from = String(BigInt(revision) + 1n)
    const { clock } = this.#desk.env
    // What no beat asks for is looked at again now and then: a watch may hang.
    let disarm = one === undefined ? clock.at(clock.now() + this.#claim.ttl, () => this.wake()) : undefined
    // Looked at soon, not at once: a cluster in trouble, with all its watches broken, must not be hammered.
    const broke = () => {
      disarm?.()
      disarm = clock.at(clock.now() + this.#pause(), () => this.wake())
    }
    const stop = this.#desk.client.watch({ ...range, start_revision: from, ...filters }, heard, broke)
    try {
      await this.#bell.rest()
    } finally {
      stop()
      disarm?.()
      this.before = undefined
    }
  }

  /** Undefined: the lease was over; there is a new one to be had. */
  async #put(session: Session, ask: Parameters<Desk['client']['txn']>[0]) {
    const { client, env } = this.#desk
    const fresh = session.until - env.clock.now() < this.#claim.ttl / 2 ? session.beat() : undefined
    fresh?.catch(() => undefined)
    try {
      this.#placed = session
      const answer = await client.txn(ask)
      // The try that was not answered may yet arrive, somewhere else.
      this.#doubt ||= answer.repeated
      await fresh?.catch(() => undefined)
      return answer
    } catch (error) {
      if (error instanceof Refusal && error.noLease) {
        session.end()
        return undefined
      }
      this.#doubt ||= troubleOf(error).doubtful
      throw error
    }
  }

  async #granted(session: Session, token: number, sent: number): Promise<Grant | undefined> {
    const { clock } = this.#desk.env
    if (session.until - clock.now() < this.#claim.ttl / 2) await session.beat()
    const hold = holdOf(this.#desk, this.#line, this.#claim, session, token, sent, this.#doubt)
    if (clock.now() < hold.validUntil && !session.dead && !this.#lost && !this.#desk.closed) {
      this.#placed = undefined
      return hold
    }
    hold.gone()
    throw new Unsure('the answer came too late')
  }

  #read({ responses = [] }: TxnReply): { own: Place | undefined; ahead: Ahead } {
    const [mine, all] = responses
    const kv = mine?.response_range?.kvs?.[0]
    const own = kv && placeOf(kv)
    const line = inOrder(all?.response_range?.kvs)
    const places = own === undefined ? line : line.filter(({ token }) => token < own.token)
    return { own, ahead: { places, count: places.length, first: line[0] } }
  }

  #refuseLimit(ahead: Ahead): void {
    const { mode, name } = this.#claim
    const other = otherLimit(ahead.places, mode)
    if (other !== undefined) throw permitLimitError(name, other, mode.kind === 'permits' ? mode.of : 0)
  }

  #blocked({ places, count, first }: Ahead): void {
    if (this.#wait.blocked === undefined) return
    const now = this.#desk.client.time.now()
    const holders = this.#claim.mode.kind === 'exclusive' ? 1 : holdersIn(places)
    this.#wait.blocked({
      ...(first !== undefined && { holder: holderOf(first, now) }),
      position: Math.max(1, count - holders + 1),
    })
  }

  /** Takes the place away; where that cannot be done at once, it is done later. */
  async #leave(): Promise<void> {
    const session = this.#placed
    if (session === undefined) return
    this.#placed = undefined
    const { attempt } = this.#claim
    const ask = this.#doubt ? giveUp(this.#line, attempt, session.id) : leave(this.#line, attempt)
    await this.#desk.clear(ask, session, this.#claim.ttl / 6)
  }

  #over(): void {
    this.#desk.quit(this.#bell)
    if (this.#kept !== undefined) this.#desk.done(this.#kept)
  }

  #note(trouble: Trouble): void {
    this.#trouble = trouble
    this.#wait.blocked?.({ trouble: trouble.error })
  }

  #value(): string {
    const { client, env } = this.#desk
    return base64(writtenOf(this.#claim, client.time.now(), env.by))
  }

  async #session(): Promise<Session> {
    if (this.#kept?.usable !== true)
      this.#kept = await this.#desk.session(this.#claim.ttl, this.#claim.attempt)
    return this.#kept
  }

  #pause(): number {
    return Math.min(250, this.#claim.ttl / 10) * (0.5 + this.#desk.env.random())
  }
}

function aheadIn({ responses = [] }: TxnReply): Ahead {
  const [before, first] = responses
  const head = first?.response_range?.kvs?.[0]
  return {
    places: inOrder(before?.response_range?.kvs),
    count: Number(before?.response_range?.count ?? 0),
    first: head && placeOf(head),
  }
}
