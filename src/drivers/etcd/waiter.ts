/**
 * Long because one claim's way through the line is one loop.
 *
 * One claim's way through the line. When it tries again, and that nothing is left of it, is in `kit/session-claim.ts`.
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
import { holdersIn, holds, inTheWay } from '../kit/line.js'
import type { Session } from '../kit/session.js'
import { SessionClaim } from '../kit/session-claim.js'
import type { Desk } from './desk.js'
import { holdOf } from './hold.js'
import { base64, type Line } from './keys.js'
import { type Ahead, aheadIn, inOrder, worthAsking } from './line.js'
import { holderOf, type Place, placeOf, writtenOf } from './place.js'
import { troubleOf } from './trouble.js'
import { enter, giveUp, join, leave, look, move, takeEmpty } from './txns.js'
import type { RangeAsk, TxnAsk, TxnReply, WatchReply } from './wire.js'

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

export class Waiter {
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #line: Line
  readonly #own: SessionClaim

  constructor(desk: Desk, claim: Claim, wait: Wait) {
    this.#desk = desk
    this.#claim = claim
    this.#wait = wait
    this.#line = desk.line(claim.name)
    this.#own = new SessionClaim(desk, claim, wait, this.#line.place(claim.attempt), {
      troubleOf,
      leave: (session) => this.#leave(session),
    })
  }

  /** One attempt: takes a place only if it holds. */
  once(): Promise<Grant | undefined> {
    return this.#own.once(() => this.#join())
  }

  /** Until the wait is over. */
  long(): Promise<Grant | undefined> {
    return this.#own.long(async () => {
      const stand = await this.#enter()
      return stand && (await this.#stand(stand))
    })
  }

  async #join(): Promise<Grant | undefined> {
    const { attempt, mode } = this.#claim
    let seen: string | undefined
    for (let tries = 0; tries < mostJoins; tries++) {
      const session = await this.#own.session()
      const { id } = session
      const value = this.#value()
      const ask =
        seen === undefined
          ? takeEmpty(this.#line, attempt, value, id)
          : join(this.#line, attempt, value, id, seen)
      const answer = await this.#put(session, ask)
      if (answer === undefined) continue
      const { is, sent } = answer
      if (is.succeeded === true) return this.#granted(session, Number(is.header.revision), sent)
      const { own, ahead } = this.#read(is)
      const free = holds(ahead.places, mode)
      if (own !== undefined && free) return this.#granted(session, own.token, sent)
      if (!this.#own.doubt) this.#own.placed = undefined
      if (own !== undefined) return undefined
      this.#own.refuseLimit(ahead.places)
      if (!free) {
        this.#blocked(ahead)
        return undefined
      }
      seen = is.header.revision
    }
    return undefined
  }

  /** Takes a place, or finds the one it has. Undefined: to be tried again. */
  async #enter(): Promise<Stand | undefined> {
    const { attempt, mode } = this.#claim
    const session = await this.#own.session()
    const answer = await this.#put(session, enter(this.#line, attempt, mode, this.#value(), session.id))
    if (answer === undefined) return undefined
    const { is, sent } = answer
    const revision = is.header.revision ?? '0'
    this.#own.answered()
    if (is.succeeded === true) {
      return { session, token: Number(revision), ahead: aheadIn(is), revision, sent }
    }
    const { own, ahead } = this.#read(is)
    if (own === undefined) throw new Error('this attempt has been given up before')
    // From an earlier lease, which is at its end: the place itself need not be lost.
    if (own.lease !== session.id) {
      const moved = await this.#desk.client.txn(move(this.#own.key, own.token, own.lease, session.id))
      if (moved.is.succeeded !== true) return undefined
    }
    return { session, token: own.token, ahead, revision, sent }
  }

  async #stand(stand: Stand): Promise<Grant | undefined> {
    const { session, token } = stand
    const { attempt, mode } = this.#claim
    const own = this.#own
    own.lost = false
    let { ahead, revision, sent } = stand
    session.add(own)
    try {
      for (;;) {
        own.refuseLimit(ahead.places)
        if (holds(ahead.places, mode)) return await this.#granted(session, token, sent)
        this.#blocked(ahead)
        await this.#untilMoved(ahead, revision)
        if (own.lost || own.ended) return undefined
        const answer = await this.#desk.client.txn(look(this.#line, attempt, mode, token))
        own.answered()
        if (answer.is.succeeded !== true) {
          own.placed = undefined
          return undefined
        }
        ahead = aheadIn(answer.is)
        revision = answer.is.header.revision ?? revision
        sent = answer.sent
      }
    } finally {
      session.drop(own)
    }
  }

  #untilMoved(ahead: Ahead, revision: string): Promise<void> {
    const { mode } = this.#claim
    const one = inTheWay(ahead.places, mode)
    const range: RangeAsk = one === undefined ? this.#line.all : { key: one.key }
    const known = new Map(ahead.places.map((place) => [place.key, place]))
    // Only readers wait for something else than an end: a writer may become one of them.
    const filters = mode.kind === 'shared' ? {} : { filters: ['NOPUT'] }
    const from = String(BigInt(revision) + 1n)
    return this.#own.rest(one?.key, (wake, broke) => {
      const heard = ({ result }: WatchReply) => {
        if (result?.canceled === true || (result?.events && worthAsking(known, mode, result.events))) wake()
      }
      return this.#desk.client.watch({ ...range, start_revision: from, ...filters }, heard, broke)
    })
  }

  #put(session: Session, ask: TxnAsk) {
    return this.#own.put(session, () => this.#desk.client.txn(ask))
  }

  #granted(session: Session, token: number, sent: number): Promise<Grant> {
    return this.#own.granted(session, () =>
      holdOf(this.#desk, this.#line, this.#claim, session, token, sent, this.#own.doubt),
    )
  }

  #read({ responses = [] }: TxnReply): { own: Place | undefined; ahead: Ahead } {
    const [mine, all] = responses
    const kv = mine?.response_range?.kvs?.[0]
    const own = kv && placeOf(kv)
    const line = inOrder(all?.response_range?.kvs)
    const places = own === undefined ? line : line.filter(({ token }) => token < own.token)
    return { own, ahead: { places, count: places.length, first: line[0] } }
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

  #leave(session: Session): Promise<void> {
    const { attempt, ttl } = this.#claim
    const ask = this.#own.doubt ? giveUp(this.#line, attempt, session.id) : leave(this.#line, attempt)
    return this.#desk.clear(ask, session, ttl / 6)
  }

  #value(): string {
    const { client, env } = this.#desk
    return base64(writtenOf(this.#claim, client.time.now(), env.by))
  }
}
