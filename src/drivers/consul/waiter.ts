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
import { findBlocker, grantedCount, isGranted } from '../kit/sessions/order.js'
import type { Session } from '../kit/sessions/session.js'
import type { WatchResult } from './client.js'
import { toFailure } from './failure.js'
import { createHold } from './hold.js'
import type { LockKeys } from './keys.js'
import { type LockGrant, LockKey } from './lock-key.js'
import { findHolder, type QueueEntry, type QueueView, toQueueEntry } from './queue-entry.js'
import { entryMember, lockMember, type Runtime } from './runtime.js'
import { enter, move, readQueue } from './transactions.js'

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
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #keys: LockKeys
  readonly #own: SessionClaim
  readonly #lockKey: LockKey

  constructor(runtime: Runtime, claim: Claim, wait: Wait) {
    this.#runtime = runtime
    this.#claim = claim
    this.#wait = wait
    this.#keys = runtime.lockKeys(claim.name)
    this.#own = new SessionClaim(runtime, claim, wait, this.#keys.entry(claim.attempt), {
      toFailure,
      removeEntry: (session) => this.#lockKey.leave(session),
    })
    this.#lockKey = new LockKey(runtime, claim, this.#keys, this.#own)
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
    if (this.#hasEntry(view, session) && isGranted(ahead, this.#claim.mode)) {
      const left = view.lock?.session === '' ? view.lock.index : undefined
      const taken = this.#lockKey.findOwn(view, session) ?? (await this.#lockKey.take(session, [], left))
      if (!('why' in taken)) return this.#granted(session, taken)
      if (taken.gone) return this.#known('no session')
    }
    this.#reportBlocked(view)
    await this.#lockKey.undo(view, session)
    await this.#own.removeEntry()
    return undefined
  }

  /** @throws InconclusiveError for an attempt whose session or entry went away: whether the lock is free is not known */
  #known<T>(tried: T | 'no session'): T {
    if (tried !== 'no session') return tried
    throw new InconclusiveError('its session ended or its queue entry was removed during the request')
  }

  /** Enters the queue if the attempt can succeed. The view returned shows whether it did. Undefined: the store has no such session. */
  async #tryToEnter(session: Session): Promise<QueueView | undefined> {
    if (this.#claim.mode.kind === 'exclusive') {
      const claimed = await this.#lockKey.claim(session)
      if (claimed !== undefined) return claimed
      if (session.ended) return undefined
      const view = await this.#readQueue()
      // Another client has the lock or is about to: nothing was put. Else a client that is gone left the key there, as `consul lock` does.
      const free = view.entries.length === 0 && (view.lock === undefined || view.lock.session === '')
      if (!free || this.#hasEntry(view, session)) return view
    }
    return (await this.#enter(session)) ?? (session.ended ? undefined : this.#enter(session))
  }

  /** Retries until the wait is over. */
  tryUntilOver(): Promise<Grant | undefined> {
    return this.#own.tryUntilOver(async () => {
      const waiters = this.#runtime.waiters.of(this.#claim.name)
      const entered = await waiters.enter(async () => (this.#own.isOver ? undefined : this.#claimOrEnter()))
      return entered && (await this.#waitForTurn(entered.session, entered.view))
    })
  }

  async #claimOrEnter(): Promise<{ readonly session: Session; readonly view: QueueView } | undefined> {
    const session = await this.#own.session()
    const { mode, name } = this.#claim
    // Where another of this process waits, the lock is taken.
    const mayBeFree = mode.kind === 'exclusive' && !this.#runtime.waiters.of(name).some
    const claimed = mayBeFree ? await this.#lockKey.claim(session) : undefined
    const view = claimed ?? (await this.#enter(session))
    return view && { session, view }
  }

  /** Creates the queue entry, or finds the existing one. Undefined: try again. */
  async #enter(session: Session): Promise<QueueView | undefined> {
    const { attempt } = this.#claim
    const { client } = this.#runtime
    const reply = await this.#own.createEntry(session, () =>
      client.txn(enter(this.#keys, attempt, this.#lockKey.value(false), session.id)),
    )
    if (reply === undefined) return undefined
    this.#own.clearFailure()
    if (reply.committed) return this.#lockKey.parseView(reply)
    if (reply.reason.includes('%over/')) throw new Error('this attempt was already given up')
    const view = await this.#readQueue()
    const own = view.entries.find((entry) => entry.attempt === attempt)
    if (own?.session === session.id) return view
    // The entry belongs to an earlier session that is about to end: move it, so that it is not lost.
    if (own !== undefined) {
      const keys = [{ key: own.key, value: own.value, lock: false }]
      await client.txn(move(keys, own.session, session.id))
    }
    return undefined
  }

  async #waitForTurn(session: Session, first: QueueView): Promise<Grant | undefined> {
    const own = this.#own
    own.lost = false
    let view = first
    const local = this.#joinLocal(first)
    session.add(own)
    try {
      for (;;) {
        own.checkLimit(this.#ahead(view))
        const next = await this.#advance(session, view, local)
        if (next !== undefined && 'token' in next) {
          local?.granted()
          return await this.#granted(session, next)
        }
        if (own.lost || own.isOver) return undefined
        view = next ?? (await this.#readQueue())
        own.clearFailure()
        if (!this.#hasEntry(view, session)) {
          own.pendingSession = undefined
          return undefined
        }
      }
    } finally {
      session.drop(own)
      local?.leave()
    }
  }

  #joinLocal({ entries }: QueueView): LocalWaiter | undefined {
    const { mode, name } = this.#claim
    const entry = entries.find(({ key }) => key === this.#own.key)
    return mode.kind === 'exclusive' && entry ? this.#runtime.waiters.of(name).join(entry.order) : undefined
  }

  /** One step from a view of the queue: @returns what was taken, or a newer view; undefined: read the queue. */
  async #advance(
    session: Session,
    seen: QueueView,
    local: LocalWaiter | undefined,
  ): Promise<LockGrant | QueueView | undefined> {
    const { mode } = this.#claim
    const ahead = this.#ahead(seen)
    if (!isGranted(ahead, mode)) {
      const view = await this.#lockKey.freeOutOfTurn(seen, session)
      this.#reportBlocked(view)
      const left = await this.#waitForBlocker(ahead, seen, local)
      if (mode.kind !== 'exclusive' || this.#own.lost || this.#own.isOver) return undefined
      return this.#lockKey.takeAfterWait(session, local?.mayExist(left) ?? left)
    }
    const mine = this.#lockKey.findOwn(seen, session)
    if (mine !== undefined) return mine
    const { lock } = seen
    if (mode.kind === 'exclusive' && lock !== undefined && lock.session !== '') {
      this.#reportBlocked(seen)
      await this.#waitForChange(this.#keys.lock, lock.index, lockMember(this.#keys.lock, lock.index))
      return undefined
    }
    const taken = await this.#lockKey.take(session, [], mode.kind === 'exclusive' ? lock?.index : undefined)
    if (!('why' in taken)) return taken
    if (/lock delay/.test(taken.why)) {
      this.#reportBlocked(seen)
      await this.#own.sleep(250 + 250 * this.#runtime.env.random())
    }
    return undefined
  }

  /** Waits for the entry in the way; for permits behind permits, for any. @returns the entries still ahead, as far as known */
  async #waitForBlocker(
    ahead: readonly QueueEntry[],
    { entries }: QueueView,
    local: LocalWaiter | undefined,
  ): Promise<readonly QueueEntry[]> {
    const one = findBlocker(ahead, this.#claim.mode)
    if (one === undefined) return this.#waitForDeparture(ahead, entries)
    let { index } = one
    for (;;) {
      const seen = await this.#waitForChange(one.key, index, entryMember(one.key, one.order), local)
      const [kv] = seen?.kvs ?? []
      // Something other than the query woke us: the next request finds out what.
      if (seen === undefined || this.#own.lost || this.#own.isOver) return ahead
      if (kv === undefined) return ahead.filter((entry) => entry !== one)
      // Written to, but still there: a writer that downgraded lets readers in, a claim that entered again is behind us; otherwise wait for
      // it as before.
      if (toQueueEntry(kv).mode.kind !== one.mode.kind || kv.CreateIndex !== one.order) return ahead
      index = seen.index
    }
  }

  /**
   * Waits until one of the entries ahead is gone. The query covers the whole queue. Our own entry is in it and newer than those ahead, and
   * arrivals and departures behind it end the query, too. Each query therefore continues from the last index seen; otherwise it would be
   * answered at once, again and again.
   */
  async #waitForDeparture(
    ahead: readonly QueueEntry[],
    keys: readonly QueueEntry[],
  ): Promise<readonly QueueEntry[]> {
    let index = Math.max(...keys.map((entry) => entry.index))
    for (;;) {
      const seen = await this.#waitForChange(this.#keys.entryPrefix, index, undefined)
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
  async #waitForChange(
    key: string,
    index: number,
    member: string | undefined,
    local?: LocalWaiter,
  ): Promise<WatchResult | undefined> {
    const all = key === this.#keys.entryPrefix
    let seen: WatchResult | undefined
    const watch = (wake: () => void, broke: () => void) => {
      const heard = (news: WatchResult) => {
        seen = news
        wake()
      }
      return this.#runtime.client.watch(key, all, index, heard, broke)
    }
    await this.#own.park(member, watch, local)
    return seen
  }

  #hasEntry({ entries }: QueueView, session: Session): boolean {
    return entries.some(({ key, session: owner }) => key === this.#own.key && owner === session.id)
  }

  async #readQueue(): Promise<QueueView> {
    return this.#lockKey.parseView(await this.#runtime.client.read(readQueue(this.#keys)))
  }

  #granted(session: Session, taken: LockGrant): Promise<Grant> {
    const value = this.#lockKey.value(true)
    return this.#own.handOut(session, () =>
      createHold(this.#runtime, this.#keys, this.#claim, session, taken, value, this.#own.ambiguous),
    )
  }

  #ahead({ entries }: QueueView): readonly QueueEntry[] {
    const own = entries.findIndex(({ key }) => key === this.#own.key)
    return own < 0 ? entries : entries.slice(0, own)
  }

  #reportBlocked(view: QueueView): void {
    if (this.#wait.report === undefined) return
    const ahead = this.#ahead(view)
    const holder = findHolder({ ...view, entries: ahead }, this.#runtime.client.time.now())
    const position = Math.max(1, ahead.length - grantedCount(ahead) + 1)
    this.#wait.report({ ...(holder !== undefined && { holder }), position })
  }
}
