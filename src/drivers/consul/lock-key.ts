/**
 * Takes and frees what one claim needs: its entry and the lock together where the queue is empty, the lock alone, or for readers
 * and permits the mark.
 */
import type { Claim } from '../../core/driver.js'
import type { SessionClaim } from '../kit/sessions/claim.js'
import type { Session } from '../kit/sessions/session.js'
import type { Operation } from './api-types.js'
import type { TxnResult } from './client.js'
import { Refusal, toFailure } from './failure.js'
import { modifyIndex } from './hold.js'
import type { LockKeys } from './keys.js'
import { encodeEntry, type QueueEntry, type QueueView, toQueueView } from './queue-entry.js'
import type { Runtime } from './runtime.js'
import {
  claim,
  freeLock,
  leave,
  markHeld,
  readQueue,
  releaseLock,
  take,
  writeTombstone,
} from './transactions.js'

/** The most entries ahead that the transaction which takes the lock can check to be gone. */
const maxBefore = 50

export interface LockGrant {
  readonly token: number
  /** The clock reading from before the request that took it was sent. */
  readonly sent: number
}

export interface Refused {
  readonly why: string
  /** Our entry, or its session, is not there any more. */
  readonly gone: boolean
}

export class LockKey {
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #keys: LockKeys
  readonly #own: SessionClaim
  readonly #since: number
  #held: string | undefined
  /** The lock was taken, but not yet granted. */
  #ungranted = false
  /** The clock reading from before the request for the newest view was sent. */
  #viewSentAt = 0

  constructor(runtime: Runtime, claim: Claim, keys: LockKeys, own: SessionClaim) {
    this.#runtime = runtime
    this.#claim = claim
    this.#keys = keys
    this.#own = own
    this.#since = runtime.client.time.now()
  }

  /** The same value for every try, so that a repeated write does not change an entry. */
  value(held: boolean): string {
    const write = () => encodeEntry(this.#claim, this.#since, this.#runtime.env.client, held)
    if (!held) return write()
    this.#held ??= write()
    return this.#held
  }

  /** Takes entry and lock in one step, which is enough where the queue is empty. Undefined: refused. */
  async claim(session: Session): Promise<QueueView | undefined> {
    const { attempt } = this.#claim
    const reply = await this.#put(session, claim(this.#keys, attempt, this.value(true), session.id))
    if (reply?.committed !== true) {
      if (!this.#own.ambiguous) this.#own.pendingSession = undefined
      return undefined
    }
    this.#own.clearFailure()
    const view = this.parseView(reply)
    this.findOwn(view, session)
    return view
  }

  /** Takes the lock, or for readers and permits the mark. */
  async take(
    session: Session,
    before: readonly string[],
    left: number | undefined,
  ): Promise<LockGrant | Refused> {
    const { attempt, mode } = this.#claim
    const value = this.value(true)
    const exclusive = mode.kind === 'exclusive'
    const operations = exclusive
      ? take(this.#keys, attempt, value, session.id, before, left)
      : markHeld(this.#keys, attempt, value, session.id)
    const reply = await this.#put(session, operations)
    if (reply === undefined) return { why: 'the session has ended', gone: true }
    // The first operation checks that the entry is there.
    if (!reply.committed) return { why: reply.reason, gone: reply.refused === 0 }
    this.#ungranted = exclusive
    return { token: modifyIndex(reply, exclusive ? this.#keys.lock : this.#own.key), sent: reply.sent }
  }

  /**
   * Takes the lock after the wait for the entry in the way, if all entries known to be ahead are gone. If there are too many to check in one
   * transaction, the transaction instead reads the queue after taking the lock; a claim that finds entries ahead then frees it again.
   * Undefined: refused.
   */
  async takeAfterWait(
    session: Session,
    ahead: readonly QueueEntry[],
  ): Promise<LockGrant | QueueView | undefined> {
    if (ahead.length <= maxBefore) {
      const before = ahead.map(({ key }) => key)
      const taken = await this.take(session, before, undefined)
      return 'why' in taken ? undefined : taken
    }
    const { attempt } = this.#claim
    const operations = take(this.#keys, attempt, this.value(true), session.id, [], undefined)
    const reply = await this.#put(session, [...operations, ...readQueue(this.#keys)])
    if (reply?.committed !== true) return undefined
    const view = this.parseView(reply)
    this.findOwn(view, session)
    return view
  }

  /** Entries are ahead of ours: frees a lock that was taken with the entry. */
  async freeOutOfTurn(view: QueueView, session: Session): Promise<QueueView> {
    if (this.findOwn(view, session) === undefined || view.lock === undefined) return view
    await this.#runtime.client.txn(freeLock(this.#keys, view.lock.index))
    this.#ungranted = false
    return { ...view, lock: undefined }
  }

  /** Entries are ahead of ours, and a single attempt does not wait: frees lock and entry in one step, so that no client sees only one of them. */
  async undo(view: QueueView, session: Session): Promise<void> {
    const { lock } = view
    const owned = this.#claim.mode.kind === 'exclusive' && this.findOwn(view, session) !== undefined
    if (!owned || lock === undefined || this.#own.ambiguous) return
    const { committed } = await this.#runtime.client.txn(
      releaseLock(this.#keys, this.#claim.attempt, lock.index),
    )
    if (!committed) return
    this.#ungranted = false
    this.#own.pendingSession = undefined
  }

  /** The view of the queue in an answer. */
  parseView({ found, sent }: TxnResult): QueueView {
    this.#viewSentAt = sent
    return toQueueView(this.#keys, found)
  }

  /** What an earlier request took, perhaps one whose answer was lost. */
  findOwn({ entries, lock }: QueueView, session: Session): LockGrant | undefined {
    const exclusive = this.#claim.mode.kind === 'exclusive'
    const own = exclusive ? lock : entries.find(({ key, held }) => key === this.#own.key && held)
    if (own?.attempt !== this.#claim.attempt || own.session !== session.id) return undefined
    this.#ungranted = exclusive
    return { token: own.index, sent: this.#viewSentAt }
  }

  /** Removes the entry, and the lock if it was taken. */
  async leave(session: Session): Promise<void> {
    const { attempt, ttl, name } = this.#claim
    if (!this.#own.ambiguous && !this.#ungranted)
      return this.#runtime.clear(leave(this.#keys, attempt, false), session, ttl / 6, name)
    // First the note, so that no request in flight takes the lock; then the lock, if one has.
    const work = async () => {
      const { client } = this.#runtime
      await client.txn([
        ...leave(this.#keys, attempt, false),
        ...writeTombstone(this.#keys, attempt, session.id),
      ])
      const { found } = await client.read(readQueue(this.#keys))
      const { lock } = toQueueView(this.#keys, found)
      if (lock?.attempt === attempt) await client.txn(freeLock(this.#keys, lock.index))
      return true
    }
    const over = (error: unknown) =>
      (error instanceof Refusal && error.noSession) || !toFailure(error).transient
    await this.#runtime.retryUntilDone(() => work().catch(over), session, ttl / 6)
  }

  #put(session: Session, operations: readonly Operation[]): Promise<TxnResult | undefined> {
    return this.#own.createEntry(session, () => this.#runtime.client.txn(operations))
  }
}
