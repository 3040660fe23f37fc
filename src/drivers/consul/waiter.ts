/**
 * One claim's path through the queue. The diagram is at {@link Waiter}. `lock-key.ts` takes and frees the entry and the lock. Retries,
 * and the clean-up after a claim, are in `kit/sessions/claim.ts`.
 *
 * There is only one lock key, so readers and permits do not take it: they mark their entry, whose ModifyIndex is then the token.
 *
 * Long because one claim's path through the queue is one loop.
 */
import type { Claim, Grant, Wait } from '../../core/driver.js'
import { InconclusiveError } from '../kit/failure.js'
import type { LocalWaiter } from '../kit/local-waiters.js'
import { SessionClaim } from '../kit/sessions/claim.js'
import { blockerOf, grantedCount, isGranted } from '../kit/sessions/order.js'
import type { Session } from '../kit/sessions/session.js'
import type { Seen } from './client.js'
import { toFailure } from './failure.js'
import { holdOf } from './hold.js'
import type { Line } from './keys.js'
import { type Taken, Taker } from './lock-key.js'
import { holderIn, type Place, placeOf, type View } from './queue-entry.js'
import { type Desk, entryMember, lockMember } from './runtime.js'
import { enter, look, move } from './transactions.js'

/**
 * ```
 *   claim: entry and lock in one transaction, if the lock is free ── no entry ahead of ours ──► granted
 *     │ the lock is taken                                              (else the lock is freed again, and the claim waits)
 *     ▼
 *   enter: one transaction puts the entry and reads the queue ── entries ahead ──► wait for the one in the way
 *     │ nothing in the way                                                             │ gone
 *     ▼                                                                                ▼
 *   take: the lock itself, if it is free and no entry is ahead ◄── all ahead are known to be gone, or: look
 *     │ a client outside the queue has it, or its last holder's session ended: wait for the lock, or the lock-delay
 *     ▼
 *   granted; the lock's ModifyIndex is the token
 * ```
 */
export class Waiter {
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #line: Line
  readonly #own: SessionClaim
  readonly #taker: Taker

  constructor(desk: Desk, claim: Claim, wait: Wait) {
    this.#desk = desk
    this.#claim = claim
    this.#wait = wait
    this.#line = desk.line(claim.name)
    this.#own = new SessionClaim(desk, claim, wait, this.#line.place(claim.attempt), {
      toFailure,
      removeEntry: (session) => this.#taker.leave(session),
    })
    this.#taker = new Taker(desk, claim, this.#line, this.#own)
  }

  /** A single attempt, in one session: what was placed in a session that has ended meanwhile says nothing about the lock. */
  tryOnce(): Promise<Grant | undefined> {
    return this.#own.tryOnce(async () => {
      const first = await this.#own.session()
      const tried = await this.#join(first)
      // The store did not know the session, and so has nothing of this attempt.
      return tried !== 'no session' ? tried : this.#known(await this.#join(await this.#own.session()))
    })
  }

  async #join(session: Session): Promise<Grant | undefined | 'no session'> {
    const view = await this.#tryToEnter(session)
    if (view === undefined) return 'no session'
    if (!session.usable) return this.#known('no session')
    const ahead = this.#ahead(view)
    this.#own.checkLimit(ahead)
    if (this.#stands(view, session) && isGranted(ahead, this.#claim.mode)) {
      const left = view.lock?.session === '' ? view.lock.index : undefined
      const taken = this.#taker.mine(view, session) ?? (await this.#taker.take(session, [], left))
      if (!('why' in taken)) return this.#granted(session, taken)
      if (taken.gone) return this.#known('no session')
    }
    this.#blocked(view)
    await this.#taker.undo(view, session)
    await this.#own.removeEntry()
    return undefined
  }

  /** @throws InconclusiveError for an attempt whose session or entry went away: whether the lock is free is not known */
  #known<T>(tried: T | 'no session'): T {
    if (tried !== 'no session') return tried
    throw new InconclusiveError('its session has ended, or its place was removed, while it asked')
  }

  /** Enters the queue if the attempt can succeed. The view returned shows whether it did. Undefined: the store has no such session. */
  async #tryToEnter(session: Session): Promise<View | undefined> {
    if (this.#claim.mode.kind === 'exclusive') {
      const claimed = await this.#taker.claim(session)
      if (claimed !== undefined) return claimed
      if (session.ended) return undefined
      const view = await this.#look()
      // Another client has the lock or is about to: nothing was put. Else a client that is gone left the key there, as `consul lock` does.
      const free = view.line.length === 0 && (view.lock === undefined || view.lock.session === '')
      if (!free || this.#stands(view, session)) return view
    }
    return (await this.#enter(session)) ?? (session.ended ? undefined : this.#enter(session))
  }

  /** Retries until the wait is over. */
  tryUntilOver(): Promise<Grant | undefined> {
    return this.#own.tryUntilOver(async () => {
      const waiters = this.#desk.waiters.of(this.#claim.name)
      const entered = await waiters.enter(async () => (this.#own.isOver ? undefined : this.#claimOrEnter()))
      return entered && (await this.#stand(entered.session, entered.view))
    })
  }

  async #claimOrEnter(): Promise<{ readonly session: Session; readonly view: View } | undefined> {
    const session = await this.#own.session()
    const { mode, name } = this.#claim
    // Where another of this process waits, the lock is taken.
    const mayBeFree = mode.kind === 'exclusive' && !this.#desk.waiters.of(name).some
    const claimed = mayBeFree ? await this.#taker.claim(session) : undefined
    const view = claimed ?? (await this.#enter(session))
    return view && { session, view }
  }

  /** Creates the queue entry, or finds the existing one. Undefined: try again. */
  async #enter(session: Session): Promise<View | undefined> {
    const { attempt } = this.#claim
    const { client } = this.#desk
    const said = await this.#own.place(session, () =>
      client.txn(enter(this.#line, attempt, this.#taker.value(false), session.id)),
    )
    if (said === undefined) return undefined
    this.#own.clearFailure()
    if (said.done) return this.#taker.view(said)
    if (said.why.includes('%over/')) throw new Error('this attempt has been given up before')
    const view = await this.#look()
    const own = view.line.find((place) => place.attempt === attempt)
    if (own?.session === session.id) return view
    // The entry belongs to an earlier session that is about to end: move it, so that it is not lost.
    if (own !== undefined) {
      const keys = [{ key: own.key, value: own.value, lock: false }]
      await client.txn(move(keys, own.session, session.id))
    }
    return undefined
  }

  async #stand(session: Session, first: View): Promise<Grant | undefined> {
    const own = this.#own
    own.lost = false
    let view = first
    const local = this.#joinLocal(first)
    session.add(own)
    try {
      for (;;) {
        own.checkLimit(this.#ahead(view))
        const next = await this.#step(session, view, local)
        if (next !== undefined && 'token' in next) {
          local?.granted()
          return await this.#granted(session, next)
        }
        if (own.lost || own.isOver) return undefined
        view = next ?? (await this.#look())
        own.clearFailure()
        if (!this.#stands(view, session)) {
          own.pendingSession = undefined
          return undefined
        }
      }
    } finally {
      session.drop(own)
      local?.leave()
    }
  }

  #joinLocal({ line }: View): LocalWaiter | undefined {
    const { mode, name } = this.#claim
    const place = line.find(({ key }) => key === this.#own.key)
    return mode.kind === 'exclusive' && place ? this.#desk.waiters.of(name).join(place.order) : undefined
  }

  /** One step from a view of the queue: @returns what was taken, or a newer view; undefined: read the queue. */
  async #step(
    session: Session,
    seen: View,
    local: LocalWaiter | undefined,
  ): Promise<Taken | View | undefined> {
    const { mode } = this.#claim
    const ahead = this.#ahead(seen)
    if (!isGranted(ahead, mode)) {
      const view = await this.#taker.ownTurn(seen, session)
      this.#blocked(view)
      const left = await this.#untilClear(ahead, seen, local)
      if (mode.kind !== 'exclusive' || this.#own.lost || this.#own.isOver) return undefined
      return this.#taker.takeAfter(session, local?.mayExist(left) ?? left)
    }
    const mine = this.#taker.mine(seen, session)
    if (mine !== undefined) return mine
    const { lock } = seen
    if (mode.kind === 'exclusive' && lock !== undefined && lock.session !== '') {
      this.#blocked(seen)
      await this.#untilMoved(this.#line.lock, lock.index, lockMember(this.#line.lock, lock.index))
      return undefined
    }
    const taken = await this.#taker.take(session, [], mode.kind === 'exclusive' ? lock?.index : undefined)
    if (!('why' in taken)) return taken
    if (/lock delay/.test(taken.why)) {
      this.#blocked(seen)
      await this.#own.sleep(250 + 250 * this.#desk.env.random())
    }
    return undefined
  }

  /** Waits for the entry in the way; for permits behind permits, for any. @returns the entries still ahead, as far as known */
  async #untilClear(
    ahead: readonly Place[],
    { line }: View,
    local: LocalWaiter | undefined,
  ): Promise<readonly Place[]> {
    const one = blockerOf(ahead, this.#claim.mode)
    if (one === undefined) return this.#untilOneLeft(ahead, line)
    let { index } = one
    for (;;) {
      const seen = await this.#untilMoved(one.key, index, entryMember(one.key, one.order), local)
      const [kv] = seen?.kvs ?? []
      // Something other than the query woke us: the next request finds out what.
      if (seen === undefined || this.#own.lost || this.#own.isOver) return ahead
      if (kv === undefined) return ahead.filter((place) => place !== one)
      // Written to, but still there: a writer that downgraded lets readers in, a claim that entered again is behind us; otherwise wait for
      // it as before.
      if (placeOf(kv).mode.kind !== one.mode.kind || kv.CreateIndex !== one.order) return ahead
      index = seen.index
    }
  }

  /**
   * Waits until one of the entries ahead is gone. The query covers the whole queue. Our own entry is in it and newer than those ahead, and
   * arrivals and departures behind it end the query, too. Each query therefore continues from the last index seen; otherwise it would be
   * answered at once, again and again.
   */
  async #untilOneLeft(ahead: readonly Place[], line: readonly Place[]): Promise<readonly Place[]> {
    let index = Math.max(...line.map((place) => place.index))
    for (;;) {
      const seen = await this.#untilMoved(this.#line.places, index, undefined)
      if (seen === undefined || this.#own.lost || this.#own.isOver) return ahead
      const there = new Map(seen.kvs.map(({ Key, CreateIndex }) => [Key, CreateIndex]))
      if (ahead.some(({ key, order }) => there.get(key) !== order)) return ahead
      index = seen.index
    }
  }

  /**
   * Waits until the key, or any queue entry, has changed since `index`, or the claim is woken.
   * @param member what the heartbeat checks, in case the query hangs
   */
  async #untilMoved(
    key: string,
    index: number,
    member: string | undefined,
    local?: LocalWaiter,
  ): Promise<Seen | undefined> {
    const all = key === this.#line.places
    let seen: Seen | undefined
    const watch = (wake: () => void, broke: () => void) => {
      const heard = (news: Seen) => {
        seen = news
        wake()
      }
      return this.#desk.client.watch(key, all, index, heard, broke)
    }
    await this.#own.park(member, watch, local)
    return seen
  }

  #stands({ line }: View, session: Session): boolean {
    return line.some(({ key, session: owner }) => key === this.#own.key && owner === session.id)
  }

  async #look(): Promise<View> {
    return this.#taker.view(await this.#desk.client.read(look(this.#line)))
  }

  #granted(session: Session, taken: Taken): Promise<Grant> {
    const value = this.#taker.value(true)
    return this.#own.handOut(session, () =>
      holdOf(this.#desk, this.#line, this.#claim, session, taken, value, this.#own.ambiguous),
    )
  }

  #ahead({ line }: View): readonly Place[] {
    const own = line.findIndex(({ key }) => key === this.#own.key)
    return own < 0 ? line : line.slice(0, own)
  }

  #blocked(view: View): void {
    if (this.#wait.report === undefined) return
    const ahead = this.#ahead(view)
    const holder = holderIn({ ...view, line: ahead }, this.#desk.client.time.now())
    const position = Math.max(1, ahead.length - grantedCount(ahead) + 1)
    this.#wait.report({ ...(holder !== undefined && { holder }), position })
  }
}
