/**
 * Long because one claim's way through the line is one loop, and what it leaves behind at each step must be seen with it.
 *
 * ```
 *   claim: place and lock in one transaction, if nobody has the lock ── nobody stands before us ──► granted
 *     │ somebody has it                                                  (else the lock is let go again, and it waits)
 *     ▼
 *   enter: one transaction puts the place and reads the line ── others are before it ──► wait for the one in the way
 *     │ nothing in the way                                                                   │ gone
 *     ▼                                                                                      ▼
 *   take: the lock itself, if nobody has it and nobody is before us ◄── all before are known to be gone, or: look
 *     │ somebody has it who does not stand in line, or its last holder's session ended: wait for the lock, or the lock-delay
 *     ▼
 *   granted; the lock's ModifyIndex is the token
 * ```
 * Readers and permits do not take the lock, of which there is one: they mark their place, whose ModifyIndex then is the token.
 */
import type { Claim, Grant, Holder, Wait } from '../../core/driver.js'
import { permitLimitError } from '../../core/errors.js'
import type { Bell } from '../kit/bell.js'
import { holdersIn, holds, inTheWay, otherLimit } from '../kit/line.js'
import type { Member, Session } from '../kit/session.js'
import type { Said, Seen } from './client.js'
import { type Desk, lockMember } from './desk.js'
import { holdOf, indexIn } from './hold.js'
import type { Line } from './keys.js'
import { holderOf, type Place, placeOf, type View, viewOf, writtenOf } from './place.js'
import { Refusal, type Trouble, troubleOf, Unsure } from './trouble.js'
import { claim, enter, leave, letGo, look, mark, move, note, take } from './txns.js'

/** So many places before ours can be checked to be gone in the transaction that takes the lock. */
const mostBefore = 50

interface Granted {
  readonly token: number
  readonly sent: number
}

export class Waiter implements Member {
  readonly key: string
  readonly waits = true
  before: string | undefined
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #line: Line
  readonly #bell: Bell
  readonly #since: number
  #lost = false
  /** A request was not answered: it may yet arrive, also after a later one was. */
  #doubt = false
  /** The lock was taken and not handed out yet. */
  #took = false
  /** Clock reading before the request left that told the newest view. */
  #sawAt = 0
  #placed: Session | undefined
  #kept: Session | undefined
  #trouble: Trouble | undefined

  constructor(desk: Desk, claim: Claim, wait: Wait) {
    this.#desk = desk
    this.#claim = claim
    this.#wait = wait
    this.#line = desk.line(claim.name)
    this.#bell = desk.bell()
    this.#since = desk.client.time.now()
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

  /** One attempt. */
  async once(): Promise<Grant | undefined> {
    try {
      const view = await this.#tryToEnter()
      const session = await this.#session()
      this.#refuseLimit(this.#ahead(view))
      if (this.#stands(view, session) && holds(this.#ahead(view), this.#claim.mode)) {
        const left = view.lock?.session === '' ? view.lock.index : undefined
        const granted = this.#mine(view, session) ?? (await this.#take(session, [], left))
        if (!('why' in granted)) return await this.#granted(session, granted)
      }
      this.#blocked(view)
      await this.#leave()
      return undefined
    } catch (error) {
      await this.#leave()
      throw error instanceof RangeError ? error : troubleOf(error).error
    } finally {
      this.#over()
    }
  }

  /** A place, if there is hope for it; the view says. */
  async #tryToEnter(): Promise<View> {
    if (this.#claim.mode.kind === 'exclusive') {
      const session = await this.#session()
      const claimed = await this.#claimLock(session)
      if (claimed !== undefined) return claimed
      const view = await this.#look()
      // Somebody has it, or is to have it: nothing was put. Else it was left there by who is gone, as `consul lock` does.
      const free = view.line.length === 0 && (view.lock === undefined || view.lock.session === '')
      if (!free || this.#stands(view, session)) return view
    }
    const view = (await this.#enter(await this.#session())) ?? (await this.#enter(await this.#session()))
    if (view === undefined) throw new Unsure('no place in line could be had')
    return view
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
      const session = await this.#session()
      const exclusive = this.#claim.mode.kind === 'exclusive'
      const claimed = exclusive ? await this.#claimLock(session) : undefined
      const view = claimed ?? (await this.#enter(session))
      return view && (await this.#stand(session, view))
    } catch (error) {
      if (error instanceof RangeError) throw error
      const trouble = troubleOf(error)
      if (!trouble.passing) throw trouble.error
      this.#note(trouble)
      if (!this.#ended) await this.#bell.rest(this.#pause())
      return undefined
    }
  }

  /** Place and lock in one step, which is all it takes where nobody is. Undefined: it was not to be had so. */
  async #claimLock(session: Session): Promise<View | undefined> {
    const { attempt } = this.#claim
    const said = await this.#put(session, claim(this.#line, attempt, this.#value(true), session.id))
    if (said?.done !== true) {
      if (!this.#doubt) this.#placed = undefined
      return undefined
    }
    this.#trouble = undefined
    const view = this.#view(said)
    this.#mine(view, session)
    return view
  }

  /** Takes a place, or finds the one it has. Undefined: to be tried again. */
  async #enter(session: Session): Promise<View | undefined> {
    const { attempt } = this.#claim
    const said = await this.#put(session, enter(this.#line, attempt, this.#value(false), session.id))
    if (said === undefined) return undefined
    this.#trouble = undefined
    if (said.done) return this.#view(said)
    if (said.why.includes('%over/')) throw new Error('this attempt has been given up before')
    const view = await this.#look()
    const own = view.line.find((place) => place.attempt === attempt)
    if (own?.session === session.id) return view
    // From an earlier session, which is at its end: the place itself need not be lost.
    if (own !== undefined) {
      const keys = [{ key: own.key, value: own.value, lock: false }]
      await this.#desk.client.txn(move(keys, own.session, session.id))
    }
    return undefined
  }

  async #stand(session: Session, first: View): Promise<Grant | undefined> {
    const { mode } = this.#claim
    this.#lost = false
    let view = first
    session.add(this)
    try {
      for (;;) {
        let ahead = this.#ahead(view)
        this.#refuseLimit(ahead)
        if (!holds(ahead, mode)) view = await this.#ownTurn(view, session)
        let left: number | undefined
        if (holds(ahead, mode)) {
          const mine = this.#mine(view, session)
          if (mine !== undefined) return await this.#granted(session, mine)
          if (mode.kind !== 'exclusive' || view.lock === undefined || view.lock.session === '') {
            left = mode.kind === 'exclusive' ? view.lock?.index : undefined
            const granted = await this.#take(session, [], left)
            if (!('why' in granted)) return await this.#granted(session, granted)
            if (/lock delay/.test(granted.why)) {
              this.#blocked(view)
              await this.#bell.rest(250 + 250 * this.#desk.env.random())
            }
          } else {
            this.#blocked(view)
            this.before = lockMember(this.#line.lock, view.lock.index)
            await this.#untilMoved(this.#line.lock, view.lock.index)
          }
        } else {
          this.#blocked(view)
          ahead = [...(await this.#untilClear(ahead))]
          if (mode.kind === 'exclusive' && !this.#lost && !this.#ended) {
            const taken = await this.#takeAfter(session, ahead)
            if (taken !== undefined && 'token' in taken) return await this.#granted(session, taken)
            if (taken !== undefined) {
              view = taken
              continue
            }
          }
        }
        if (this.#lost || this.#ended) return undefined
        view = await this.#look()
        this.#trouble = undefined
        if (!this.#stands(view, session)) {
          this.#placed = undefined
          return undefined
        }
      }
    } finally {
      session.drop(this)
    }
  }

  /** Waits for the place in the way; for permits behind permits, for any. Gives what is still before ours as far as that is known. */
  async #untilClear(ahead: readonly Place[]): Promise<readonly Place[]> {
    const { mode } = this.#claim
    const one = inTheWay(ahead, mode)
    if (one === undefined) {
      const newest = Math.max(...ahead.map(({ index }) => index))
      await this.#untilMoved(this.#line.places, newest, true)
      return ahead
    }
    let { index } = one
    for (;;) {
      // Each beat asks for it, too: a query may hang.
      this.before = one.key
      const seen = await this.#untilMoved(one.key, index)
      const [kv] = seen?.kvs ?? []
      // Woken by somebody else than the query: whoever asks next finds out.
      if (seen === undefined || this.#lost || this.#ended) return ahead
      if (kv === undefined) return ahead.filter((place) => place !== one)
      // Written to, but there: a writer that became a reader lets readers in, else it is waited for as before.
      if (placeOf(kv).mode.kind !== one.mode.kind) return ahead
      index = seen.index
    }
  }

  /** Until the key has changed since `index`, or somebody rings. */
  async #untilMoved(key: string, index: number, recurse = false): Promise<Seen | undefined> {
    const { clock } = this.#desk.env
    let seen: Seen | undefined
    // What no beat asks for is looked at again now and then: a query may hang.
    let disarm =
      this.before === undefined ? clock.at(clock.now() + this.#claim.ttl, () => this.wake()) : undefined
    const heard = (news: Seen) => {
      seen = news
      this.wake()
    }
    // Looked at soon, not at once: a cluster in trouble, with all its queries broken, must not be hammered.
    const broke = () => {
      disarm?.()
      disarm = clock.at(clock.now() + this.#pause(), () => this.wake())
    }
    const stop = this.#desk.client.watch(key, recurse, index, heard, broke)
    try {
      await this.#bell.rest()
    } finally {
      stop()
      disarm?.()
      this.before = undefined
    }
    return seen
  }

  /** The lock, or for readers and permits the mark. */
  async #take(
    session: Session,
    before: readonly string[],
    left: number | undefined,
  ): Promise<Granted | { readonly why: string }> {
    const { attempt, mode } = this.#claim
    const value = this.#value(true)
    const exclusive = mode.kind === 'exclusive'
    const operations = exclusive
      ? take(this.#line, attempt, value, session.id, before, left)
      : mark(this.#line, attempt, value, session.id)
    const said = await this.#put(session, operations)
    if (said === undefined) return { why: 'the session has ended' }
    if (!said.done) return { why: said.why }
    this.#took = exclusive
    return { token: indexIn(said, exclusive ? this.#line.lock : this.key), sent: said.sent }
  }

  /**
   * After the wait for the one in the way: takes the lock, if those known to be before ours are gone. They are too many to be checked
   * in one transaction? Then that reads the line it leaves behind instead, and whoever finds others before it lets go again.
   * Undefined: it was not to be had.
   */
  async #takeAfter(session: Session, ahead: readonly Place[]): Promise<Granted | View | undefined> {
    if (ahead.length <= mostBefore) {
      const before = ahead.map(({ key }) => key)
      const granted = await this.#take(session, before, undefined)
      return 'why' in granted ? undefined : granted
    }
    const { attempt } = this.#claim
    const said = await this.#put(session, [
      ...take(this.#line, attempt, this.#value(true), session.id, [], undefined),
      ...look(this.#line),
    ])
    if (said?.done !== true) return undefined
    return this.#view(said)
  }

  #stands({ line }: View, session: Session): boolean {
    return line.some(({ key, session: owner }) => key === this.key && owner === session.id)
  }

  /** Others are before us: a lock that was had with the place is let go. */
  async #ownTurn(view: View, session: Session): Promise<View> {
    if (this.#mine(view, session) === undefined || view.lock === undefined) return view
    await this.#desk.client.txn(letGo(this.#line, view.lock.index))
    this.#took = false
    return { ...view, lock: undefined }
  }

  /** Has an earlier request, whose answer was lost, taken it already? */
  #mine({ line, lock }: View, session: Session): Granted | undefined {
    const exclusive = this.#claim.mode.kind === 'exclusive'
    const own = exclusive ? lock : line.find(({ key, held }) => key === this.key && held)
    if (own?.attempt !== this.#claim.attempt || own.session !== session.id) return undefined
    this.#took = exclusive
    return { token: own.index, sent: this.#sawAt }
  }

  /** Undefined: the session was over; there is a new one to be had. */
  async #put(session: Session, operations: Parameters<Desk['client']['txn']>[0]): Promise<Said | undefined> {
    const { client, env } = this.#desk
    const fresh = session.until - env.clock.now() < this.#claim.ttl / 2 ? session.beat() : undefined
    fresh?.catch(() => undefined)
    try {
      this.#placed = session
      const said = await client.txn(operations)
      // The try that was not answered may yet arrive, somewhere else.
      this.#doubt ||= said.repeated
      await fresh?.catch(() => undefined)
      return said
    } catch (error) {
      if (error instanceof Refusal && error.noSession) {
        session.end()
        return undefined
      }
      this.#doubt ||= troubleOf(error).doubtful
      throw error
    }
  }

  async #look(): Promise<View> {
    return this.#view(await this.#desk.client.read(look(this.#line)))
  }

  #view({ found, sent }: Said): View {
    this.#sawAt = sent
    return viewOf(this.#line, found)
  }

  async #granted(session: Session, granted: Granted): Promise<Grant> {
    const { clock } = this.#desk.env
    if (session.until - clock.now() < this.#claim.ttl / 2) await session.beat()
    const hold = holdOf(this.#desk, this.#line, this.#claim, session, granted, this.#value(true), this.#doubt)
    if (clock.now() < hold.validUntil && !session.dead && !this.#lost && !this.#desk.closed) {
      this.#placed = undefined
      return hold
    }
    hold.gone()
    throw new Unsure('the answer came too late')
  }

  #ahead({ line }: View): readonly Place[] {
    const own = line.findIndex(({ key }) => key === this.key)
    return own < 0 ? line : line.slice(0, own)
  }

  #refuseLimit(ahead: readonly Place[]): void {
    const { mode, name } = this.#claim
    const other = otherLimit(ahead, mode)
    if (other !== undefined) throw permitLimitError(name, other, mode.kind === 'permits' ? mode.of : 0)
  }

  #blocked(view: View): void {
    if (this.#wait.blocked === undefined) return
    const ahead = this.#ahead(view)
    const holder = holderIn({ ...view, line: ahead }, this.#desk.client.time.now())
    const position = Math.max(1, ahead.length - holdersIn(ahead) + 1)
    this.#wait.blocked({ ...(holder !== undefined && { holder }), position })
  }

  /** Takes the place away, and the lock with it if that was had; where that cannot be done at once, it is done later. */
  async #leave(): Promise<void> {
    const session = this.#placed
    if (session === undefined) return
    this.#placed = undefined
    const { attempt } = this.#claim
    const pace = this.#claim.ttl / 6
    if (!this.#doubt && !this.#took) return this.#desk.clear(leave(this.#line, attempt, false), session, pace)
    // First the note, so that nothing that is on its way takes the lock; then the lock, if something has.
    const work = async () => {
      const { client } = this.#desk
      await client.txn([...leave(this.#line, attempt, false), ...note(this.#line, attempt, session.id)])
      const { lock } = await this.#look()
      if (lock?.attempt === attempt) {
        await client.txn(letGo(this.#line, lock.index))
      }
      return true
    }
    const over = (error: unknown) =>
      (error instanceof Refusal && error.noSession) || !troubleOf(error).passing
    await this.#desk.chase(() => work().catch(over), session, pace)
  }

  #over(): void {
    this.#desk.quit(this.#bell)
    if (this.#kept !== undefined) this.#desk.done(this.#kept)
  }

  #note(trouble: Trouble): void {
    this.#trouble = trouble
    this.#wait.blocked?.({ trouble: trouble.error })
  }

  /** The same for every try: a place that is written again is not changed by it. */
  #value(held: boolean): string {
    return writtenOf(this.#claim, this.#since, this.#desk.env.by, held)
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

/** Who has it: the owner of the lock, or the first of those that hold without it. */
export function holderIn({ line, lock }: View, now: number): Holder | undefined {
  const [first] = line
  if (lock !== undefined && lock.session !== '') return holderOf(lock, now)
  return first === undefined || first.mode.kind === 'exclusive' ? undefined : holderOf(first, now)
}
