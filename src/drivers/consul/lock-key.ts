/**
 * Takes and frees what one claim needs: its entry and the lock together where the queue is empty, the lock alone, or for readers
 * and permits the mark.
 */
import type { Claim } from '../../core/driver.js'
import type { SessionClaim } from '../kit/sessions/claim.js'
import type { Session } from '../kit/sessions/session.js'
import type { Operation } from './api-types.js'
import type { Said } from './client.js'
import { Refusal, toFailure } from './failure.js'
import { indexIn } from './hold.js'
import type { Line } from './keys.js'
import { type Place, type View, viewOf, writtenOf } from './queue-entry.js'
import type { Desk } from './runtime.js'
import { claim, free, leave, letGo, look, mark, note, take } from './transactions.js'

/** The most entries ahead that the transaction which takes the lock can check to be gone. */
const mostBefore = 50

export interface Taken {
  readonly token: number
  /** The clock reading from before the request that took it was sent. */
  readonly sent: number
}

export interface Refused {
  readonly why: string
  /** Our entry, or its session, is not there any more. */
  readonly gone: boolean
}

export class Taker {
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #line: Line
  readonly #own: SessionClaim
  readonly #since: number
  #held: string | undefined
  /** The lock was taken, but not yet granted. */
  #took = false
  /** The clock reading from before the request for the newest view was sent. */
  #sawAt = 0

  constructor(desk: Desk, claim: Claim, line: Line, own: SessionClaim) {
    this.#desk = desk
    this.#claim = claim
    this.#line = line
    this.#own = own
    this.#since = desk.client.time.now()
  }

  /** The same value for every try, so that a repeated write does not change an entry. */
  value(held: boolean): string {
    const write = () => writtenOf(this.#claim, this.#since, this.#desk.env.client, held)
    if (!held) return write()
    this.#held ??= write()
    return this.#held
  }

  /** Takes entry and lock in one step, which is enough where the queue is empty. Undefined: refused. */
  async claim(session: Session): Promise<View | undefined> {
    const { attempt } = this.#claim
    const said = await this.#put(session, claim(this.#line, attempt, this.value(true), session.id))
    if (said?.done !== true) {
      if (!this.#own.ambiguous) this.#own.pendingSession = undefined
      return undefined
    }
    this.#own.clearFailure()
    const view = this.view(said)
    this.mine(view, session)
    return view
  }

  /** Takes the lock, or for readers and permits the mark. */
  async take(
    session: Session,
    before: readonly string[],
    left: number | undefined,
  ): Promise<Taken | Refused> {
    const { attempt, mode } = this.#claim
    const value = this.value(true)
    const exclusive = mode.kind === 'exclusive'
    const operations = exclusive
      ? take(this.#line, attempt, value, session.id, before, left)
      : mark(this.#line, attempt, value, session.id)
    const said = await this.#put(session, operations)
    if (said === undefined) return { why: 'the session has ended', gone: true }
    // The first operation checks that the entry is there.
    if (!said.done) return { why: said.why, gone: said.refused === 0 }
    this.#took = exclusive
    return { token: indexIn(said, exclusive ? this.#line.lock : this.#own.key), sent: said.sent }
  }

  /**
   * Takes the lock after the wait for the entry in the way, if all entries known to be ahead are gone. If there are too many to check in one
   * transaction, the transaction instead reads the queue after taking the lock; a claim that finds entries ahead then frees it again.
   * Undefined: refused.
   */
  async takeAfter(session: Session, ahead: readonly Place[]): Promise<Taken | View | undefined> {
    if (ahead.length <= mostBefore) {
      const before = ahead.map(({ key }) => key)
      const taken = await this.take(session, before, undefined)
      return 'why' in taken ? undefined : taken
    }
    const { attempt } = this.#claim
    const operations = take(this.#line, attempt, this.value(true), session.id, [], undefined)
    const said = await this.#put(session, [...operations, ...look(this.#line)])
    if (said?.done !== true) return undefined
    const view = this.view(said)
    this.mine(view, session)
    return view
  }

  /** Entries are ahead of ours: frees a lock that was taken with the entry. */
  async ownTurn(view: View, session: Session): Promise<View> {
    if (this.mine(view, session) === undefined || view.lock === undefined) return view
    await this.#desk.client.txn(letGo(this.#line, view.lock.index))
    this.#took = false
    return { ...view, lock: undefined }
  }

  /** Entries are ahead of ours, and a single attempt does not wait: frees lock and entry in one step, so that no client sees only one of them. */
  async undo(view: View, session: Session): Promise<void> {
    const { lock } = view
    const had = this.#claim.mode.kind === 'exclusive' && this.mine(view, session) !== undefined
    if (!had || lock === undefined || this.#own.ambiguous) return
    const { done } = await this.#desk.client.txn(free(this.#line, this.#claim.attempt, lock.index))
    if (!done) return
    this.#took = false
    this.#own.pendingSession = undefined
  }

  /** The view of the queue in an answer. */
  view({ found, sent }: Said): View {
    this.#sawAt = sent
    return viewOf(this.#line, found)
  }

  /** What an earlier request took, perhaps one whose answer was lost. */
  mine({ line, lock }: View, session: Session): Taken | undefined {
    const exclusive = this.#claim.mode.kind === 'exclusive'
    const own = exclusive ? lock : line.find(({ key, held }) => key === this.#own.key && held)
    if (own?.attempt !== this.#claim.attempt || own.session !== session.id) return undefined
    this.#took = exclusive
    return { token: own.index, sent: this.#sawAt }
  }

  /** Removes the entry, and the lock if it was taken. */
  async leave(session: Session): Promise<void> {
    const { attempt, ttl, name } = this.#claim
    if (!this.#own.ambiguous && !this.#took)
      return this.#desk.clear(leave(this.#line, attempt, false), session, ttl / 6, name)
    // First the note, so that no request in flight takes the lock; then the lock, if one has.
    const work = async () => {
      const { client } = this.#desk
      await client.txn([...leave(this.#line, attempt, false), ...note(this.#line, attempt, session.id)])
      const { found } = await client.read(look(this.#line))
      const { lock } = viewOf(this.#line, found)
      if (lock?.attempt === attempt) await client.txn(letGo(this.#line, lock.index))
      return true
    }
    const over = (error: unknown) =>
      (error instanceof Refusal && error.noSession) || !toFailure(error).transient
    await this.#desk.retryUntilDone(() => work().catch(over), session, ttl / 6)
  }

  #put(session: Session, operations: readonly Operation[]): Promise<Said | undefined> {
    return this.#own.place(session, () => this.#desk.client.txn(operations))
  }
}
