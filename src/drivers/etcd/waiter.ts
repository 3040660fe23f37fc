/**
 * One claim's path through the queue. The diagram is at {@link Waiter}. Retries, and the clean-up after a claim, are in
 * `kit/sessions/claim.ts`.
 *
 * After each wake-up the waiter checks its own entry: a lease that ended during the wait has removed the entry, and another
 * client may hold.
 *
 * Long because one claim's path through the queue is one loop.
 */
import type { Claim, Grant, Wait } from '../../core/driver.js'
import type { LocalWaiter } from '../kit/local-waiters.js'
import { SessionClaim } from '../kit/sessions/claim.js'
import { findBlocker, grantedCount, isGranted } from '../kit/sessions/order.js'
import type { Session } from '../kit/sessions/session.js'
import type { RangeRequest, TxnReply, TxnRequest, WatchReply } from './api-types.js'
import { toFailure } from './failure.js'
import { createHold } from './hold.js'
import { base64, type LockKeys } from './keys.js'
import type { Reply } from './member.js'
import { inOrder, keepsMode, mayUnblock, type Predecessors, parsePredecessors } from './queue.js'
import { encodeEntry, type QueueEntry, toHolder, toQueueEntry } from './queue-entry.js'
import type { Runtime } from './runtime.js'
import { enter, entryMember, giveUp, join, leave, move, readPredecessors, takeEmpty } from './transactions.js'

/** A queue entry, and the entries ahead of it as of `revision`. */
interface QueuePosition {
  readonly session: Session
  /** The create revision. */
  readonly created: number
  /** The revision of the last write. */
  readonly modified: number
  /** Undefined: the entry was created earlier, and its position says nothing about the tokens granted since. */
  readonly token: number | undefined
  readonly ahead: Predecessors
  readonly revision: string
  /** The clock reading from before the request for it was sent. */
  readonly sent: number
}

/** A single attempt beside other holders is repeated when the queue changed meanwhile, but at most this often. */
const maxJoins = 20

/**
 * ```
 *   enter: one transaction puts the entry and reads those ahead ── nothing in the way ──► granted
 *     │ an entry is in the way
 *     ▼
 *   wait: watch that one entry; if the store has moved on since the read, read the entry once more, so that no change is missed
 *     │ it is gone · the watch broke · the queue's past was compacted · a heartbeat found it gone
 *     ▼
 *   look: does our own entry exist, and what is ahead now? ── nothing ──► granted;  no entry ──► enter again
 *         It writes the entry, unchanged. A hold ahead may have been passed on, and its tokens are newer than our position.
 * ```
 */
export class Waiter {
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #keys: LockKeys
  readonly #own: SessionClaim

  constructor(runtime: Runtime, claim: Claim, wait: Wait) {
    this.#runtime = runtime
    this.#claim = claim
    this.#wait = wait
    this.#keys = runtime.lockKeys(claim.name)
    this.#own = new SessionClaim(runtime, claim, wait, this.#keys.entry(claim.attempt), {
      toFailure,
      removeEntry: (session) => this.#leave(session),
    })
  }

  /** A single attempt: enters the queue only if the entry holds at once. */
  tryOnce(): Promise<Grant | undefined> {
    return this.#own.tryOnce(() => this.#join())
  }

  /** Retries until the wait is over. */
  tryUntilOver(): Promise<Grant | undefined> {
    return this.#own.tryUntilOver(async () => {
      const waiters = this.#runtime.waiters.of(this.#claim.name)
      const position = await waiters.enter(async () => (this.#own.isOver ? undefined : this.#enter()))
      return position && (await this.#waitForTurn(position))
    })
  }

  async #join(): Promise<Grant | undefined> {
    const { attempt, mode } = this.#claim
    let seen: string | undefined
    for (let tries = 0; tries < maxJoins; tries++) {
      const session = await this.#own.session()
      const { id } = session
      const value = this.#value()
      const ask =
        seen === undefined
          ? takeEmpty(this.#keys, attempt, value, id)
          : join(this.#keys, attempt, value, id, seen)
      const answer = await this.#put(session, ask)
      if (answer === undefined) continue
      const { is, sent } = answer
      if (is.succeeded === true) {
        const made = Number(is.header.revision)
        return this.#granted(session, made, made, sent)
      }
      const { own, ahead } = this.#read(is)
      const free = isGranted(ahead.entries, mode)
      if (own !== undefined && free) return this.#resumeAttempt(session, own, sent)
      if (!this.#own.ambiguous) this.#own.pendingSession = undefined
      if (own !== undefined) return undefined
      this.#own.checkLimit(ahead.entries)
      if (!free) {
        this.#reportBlocked(ahead)
        return undefined
      }
      seen = is.header.revision
    }
    return undefined
  }

  /** Creates the queue entry, or finds the existing one. Undefined: try again. */
  async #enter(): Promise<QueuePosition | undefined> {
    const { attempt, mode } = this.#claim
    const session = await this.#own.session()
    const answer = await this.#put(session, enter(this.#keys, attempt, mode, this.#value(), session.id))
    if (answer === undefined) return undefined
    const { is, sent } = answer
    const revision = is.header.revision ?? '0'
    this.#own.clearFailure()
    if (is.succeeded === true) {
      return {
        session,
        created: Number(revision),
        modified: Number(revision),
        token: Number(revision),
        ahead: parsePredecessors(is),
        revision,
        sent,
      }
    }
    const { own, ahead } = this.#read(is)
    if (own === undefined) throw new Error('this attempt was already given up')
    let { modified } = own
    // The entry belongs to an earlier lease that is about to end: move it, so that it is not lost.
    if (own.lease !== session.id) {
      const moved = await this.#runtime.client.txn(move(this.#own.key, own.created, own.lease, session.id))
      if (moved.is.succeeded !== true) return undefined
      modified = Number(moved.is.header.revision)
    }
    const token = this.#runtime.tokens.get(this.#own.key)
    return { session, created: own.created, modified, token, ahead, revision, sent }
  }

  /** A repeated single attempt: the entry that it finds is its own. Undefined: it is gone. */
  async #resumeAttempt(session: Session, entry: QueueEntry, sent: number): Promise<Grant | undefined> {
    const { created, key } = entry
    if (this.#runtime.tokens.has(key)) return this.#granted(session, created, created, sent)
    const answer = await this.#readPredecessors(entry)
    return answer && this.#granted(session, created, Number(answer.is.header.revision), answer.sent)
  }

  /** Undefined: the entry is gone. It may have been written to by an earlier look whose answer was lost. */
  async #readPredecessors({
    created,
    modified,
  }: Pick<QueuePosition, 'created' | 'modified'>): Promise<Reply<TxnReply> | undefined> {
    const { attempt, mode } = this.#claim
    for (let written = modified; ; ) {
      const answer = await this.#runtime.client.txn(
        readPredecessors(this.#keys, attempt, mode, created, written),
      )
      if (answer.is.succeeded === true) return answer
      const kv = answer.is.responses?.[0]?.response_range?.kvs?.[0]
      const own = kv && toQueueEntry(kv)
      if (own?.created !== created) return undefined
      written = own.modified
    }
  }

  async #waitForTurn(position: QueuePosition): Promise<Grant | undefined> {
    const { session, created } = position
    const { mode, name } = this.#claim
    const own = this.#own
    own.lost = false
    let { modified, ahead, revision, sent, token } = position
    const local = mode.kind === 'exclusive' ? this.#runtime.waiters.of(name).join(created) : undefined
    session.add(own)
    try {
      for (;;) {
        own.checkLimit(ahead.entries)
        const free = isGranted(ahead.entries, mode)
        if (free && token !== undefined) return await this.#granted(session, created, token, sent)
        if (!free) {
          this.#reportBlocked(ahead)
          await this.#waitForBlocker(ahead, revision, local)
        }
        if (own.lost || own.isOver) return undefined
        const answer = await this.#readPredecessors({ created, modified })
        own.clearFailure()
        if (answer === undefined) {
          own.pendingSession = undefined
          return undefined
        }
        ahead = parsePredecessors(answer.is)
        revision = answer.is.header.revision ?? revision
        token = Number(revision)
        modified = token
        sent = answer.sent
      }
    } finally {
      session.drop(own)
      local?.leave()
    }
  }

  #waitForBlocker(ahead: Predecessors, revision: string, local: LocalWaiter | undefined): Promise<void> {
    const { mode } = this.#claim
    const one = findBlocker(ahead.entries, mode)
    const range: RangeRequest = one === undefined ? this.#keys.all : { key: one.key }
    const known = new Map(ahead.entries.map((entry) => [entry.key, entry]))
    // Only readers wait for more than a deletion: a writer ahead may downgrade to a reader.
    const filters = mode.kind === 'shared' ? {} : { filters: ['NOPUT'] }
    const from = String(BigInt(revision) + 1n)
    const watch = (wake: () => void, broke: () => void) => {
      const heard = ({ result }: WatchReply) => {
        if (
          one !== undefined &&
          result?.created === true &&
          BigInt(result.header?.revision ?? 0) >= BigInt(from)
        )
          void this.#changed(one, from).then((changed) => changed && wake(), broke)
        if (result?.canceled === true || (result?.events && mayUnblock(known, mode, result.events))) wake()
      }
      // etcd serves a watch on past revisions only every 100 ms until it has caught up. A single entry is therefore watched from now on, and
      // read if there are past revisions.
      const since = one === undefined ? { start_revision: from } : {}
      return this.#runtime.client.watch({ ...range, ...since, ...filters }, heard, broke)
    }
    return this.#own.park(one && entryMember(one.key, one.created), watch, local)
  }

  /** Was this entry deleted (its claim may have entered again since, behind), or turned into another mode at revision `from` or later? */
  async #changed({ key, mode, created }: QueueEntry, from: string): Promise<boolean> {
    const { is } = await this.#runtime.client.range({ key })
    const [kv] = is.kvs ?? []
    if (kv === undefined || Number(kv.create_revision) !== created) return true
    const written = this.#claim.mode.kind === 'shared' && BigInt(kv.mod_revision) >= BigInt(from)
    return written && !keepsMode(kv, mode)
  }

  #put(session: Session, ask: TxnRequest) {
    return this.#own.createEntry(session, () => this.#runtime.client.txn(ask))
  }

  #granted(session: Session, created: number, token: number, sent: number): Promise<Grant> {
    const { ambiguous } = this.#own
    // Another call of the same claim may have been granted meanwhile.
    const taken = { created, token: this.#runtime.tokens.get(this.#own.key) ?? token, sent, ambiguous }
    return this.#own.handOut(session, () =>
      createHold(this.#runtime, this.#keys, this.#claim, session, taken),
    )
  }

  #read({ responses = [] }: TxnReply): { own: QueueEntry | undefined; ahead: Predecessors } {
    const [mine, all] = responses
    const kv = mine?.response_range?.kvs?.[0]
    const own = kv && toQueueEntry(kv)
    const keys = inOrder(all?.response_range?.kvs)
    const entries = own === undefined ? keys : keys.filter(({ created }) => created < own.created)
    return { own, ahead: { entries, count: entries.length, first: keys[0] } }
  }

  #reportBlocked({ entries, count, first }: Predecessors): void {
    if (this.#wait.report === undefined) return
    const now = this.#runtime.client.time.now()
    const holders = this.#claim.mode.kind === 'exclusive' ? 1 : grantedCount(entries)
    this.#wait.report({
      ...(first !== undefined && { holder: toHolder(first, now) }),
      position: Math.max(1, count - holders + 1),
    })
  }

  #leave(session: Session): Promise<void> {
    const { attempt, ttl, name } = this.#claim
    const ask = this.#own.ambiguous ? giveUp(this.#keys, attempt, session.id) : leave(this.#keys, attempt)
    return this.#runtime.clear(ask, session, ttl / 6, name)
  }

  #value(): string {
    const { client, env } = this.#runtime
    return base64(encodeEntry(this.#claim, client.time.now(), env.client))
  }
}
