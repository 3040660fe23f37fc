/**
 * The queue of one process for one name: performs what `queue-state.ts` decides, where the picture is. It talks to the
 * driver, reads the clock, makes holds, and notifies callers and listeners.
 * Long because every action of the queue is performed here.
 *
 * Local hand-overs are bounded while others wait in the store's queue: see `handoff-limit.ts`.
 */

import { cacheable, patience } from './caching.js'
import type { ClaimBatch } from './claim-batch.js'
import { createClaim } from './create-claim.js'
import type { Claim, Grant, Holder, Wait, WaitStatus } from './driver.js'
import type { Engine } from './engine.js'
import { BackendError } from './errors.js'
import { canReuse, GrantCache, isFit, mayKeep } from './grant-cache.js'
import { isShortened, renewed, usable } from './grant-freshness.js'
import { HandoffLimit } from './handoff-limit.js'
import { canReceive, minTtlShare } from './handoff-rules.js'
import { Hold } from './hold.js'
import { shared } from './mode.js'
import { quote } from './name.js'
import type { Terms } from './options.js'
import type { QueueEntry } from './queue-entry.js'
import * as queue from './queue-state.js'
import { StoreRequest } from './store-request.js'
import { Watchdog } from './watchdog.js'
import { closeTimeout, withTimeout } from './with-timeout.js'

/** What the store reported at the end of a wait. */
export interface FinalInspection {
  /** Did it reply? */
  readonly answered: boolean
  readonly holder?: Holder | undefined
  /** Why it did not. */
  readonly error?: BackendError
}

/** Longest time to query the present holder at the end of a wait, in ms; the error comes later by that time. */
const inspectTimeout = 2_000

export class LocalQueue {
  readonly engine: Engine
  readonly name: string
  readonly #state: queue.QueueState<QueueEntry, StoreRequest, Hold> = queue.emptyQueue()
  /** Ends the wait for the next token of the resting hold. */
  #stopMinting: (() => void) | undefined
  /** Made for the first hand-over. */
  #madeLimit: HandoffLimit | undefined
  /** Made for the first grant that is cached. */
  #cache: GrantCache | undefined
  /** The query for the holder at the end of waits. */
  #inspection: Promise<FinalInspection> | undefined
  /** The last report to the head of the queue on who holds the lock, and the clock reading then. */
  lastStatus: { readonly by: WaitStatus; readonly at: number } | undefined
  /** Why the store could not serve requests, as last reported. */
  lastError: BackendError | undefined

  constructor(engine: Engine, name: string) {
    this.engine = engine
    this.name = name
  }

  #handoffLimit(): HandoffLimit {
    this.#madeLimit ??= new HandoffLimit(this.engine.clock)
    return this.#madeLimit
  }

  /** Nobody in this process holds or waits. */
  get isEmpty(): boolean {
    return queue.isEmpty(this.#state)
  }

  /** Nobody in this process waits, has a request under way or keeps others out. */
  get isUncontended(): boolean {
    const { queue: waiting, asking } = this.#state
    return waiting.size === 0 && asking.size === 0 && !queue.isTaken(this.#state)
  }

  /** Do `most` or more of this process wait? */
  isFull(most: number): boolean {
    return queue.isFull(this.#state, most)
  }

  /** Holds, doubtful holds and requests of this process. */
  counts(): { held: number; doubtful: number; waiting: number } {
    const { queue: queued, asking, holds } = this.#state
    let doubtful = 0
    for (const hold of holds) if (hold.state() === 'doubtful') doubtful++
    let waiting = queued.size
    for (const { owner } of asking) if (owner !== undefined) waiting++
    return { held: holds.size, doubtful, waiting }
  }

  /** A single attempt (`once`) never waits behind others: if the queue is busy for it, it ends without any I/O. */
  enqueue(request: QueueEntry, once: boolean): void {
    const hold = this.#cache?.hold
    if (hold !== undefined && this.#reuse(hold, request, once)) return
    const next = queue.enqueue(this.#state, request, once)
    if (next === 'queued') this.#pumpConcurrent()
    else if (next === 'refused') this.#refuse(request)
    else this.#ask(next)
  }

  /** The caller has gone: deadline, abort or close. */
  cancel(request: QueueEntry): void {
    const left = queue.cancel(this.#state, request)
    if (left?.owner !== undefined) left.owner.deadline.arm()
    else left?.abandon()
    this.#pump()
  }

  /** The holder in this process, for error messages. */
  localHolder(): Holder | undefined {
    const hold = this.#state.holds.first ?? this.#state.heldBack
    if (hold === undefined) return undefined
    const { claim } = hold.watchdog
    return {
      attempt: claim.attempt,
      mode: hold.mode,
      token: hold.token,
      heldFor: this.engine.clock.now() - hold.since,
      expiresIn: hold.watchdog.remaining,
      client: `${this.engine.env.client} (this process)`,
      ...(hold.note === undefined ? {} : { note: hold.note }),
    }
  }

  /** The token in use of the grant of `attempt`, 0 while it is cached; undefined: the grant is not in this process. */
  tokenOf(attempt: string): number | undefined {
    for (const hold of this.#state.holds)
      if (hold.watchdog.claim.attempt === attempt) return hold.state() === 'lost' ? 0 : hold.token
    return this.#state.heldBack?.watchdog.claim.attempt === attempt ? 0 : undefined
  }

  /** A grant is kept here for the next request. */
  get isCaching(): boolean {
    return this.#cache?.hold !== undefined
  }

  /** A hold ended by loss. */
  ended(hold: Hold): void {
    queue.removeHold(this.#state, hold)
    this.#pump()
  }

  /**
   * Takes over the grant that another process held, with its token. Undefined: it is no longer held.
   * @param claim has the attempt of that hold; `wait` is a single attempt
   */
  async adopt(claim: Claim, token: number, terms: Terms, wait: Wait): Promise<Hold | undefined> {
    const grant = await this.engine.keepAliveDuring(this.engine.driver.acquire(claim, wait))
    if (grant === undefined) return undefined
    // The engine may have dropped this line meanwhile, because it was idle; close() releases what is in the line that
    // the engine knows.
    return this.engine.queue(this.name, this).#adopted(claim, grant, token, terms)
  }

  async #adopted(claim: Claim, grant: Grant, token: number, terms: Terms): Promise<Hold | undefined> {
    let last = grant.token
    // Local hand-overs in the other process have used up part of the reserve.
    while (last < token) last = grant.nextReservedToken?.() ?? Number.POSITIVE_INFINITY
    const now = this.engine.clock.now()
    if (last !== token || !usable(grant, terms, now) || this.engine.closed) {
      const { releases } = this.engine
      const unused = this.#unused(claim, grant)
      return releases.answered(unused, unused.release(), () => undefined)
    }
    const watchdog = new Watchdog(this.engine, claim, grant, terms, now)
    const hold = new Hold(this, watchdog, token, terms, now)
    queue.held(this.#state, hold)
    this.engine.events.emit('granted', { ...hold.about(), acquisition: 0, waited: 0, handedOff: false })
    return hold
  }

  /**
   * A hold ended by release. True: a local request has inherited it, or is about to; else the grant must go back to the store.
   * Listeners learn of the release before they learn of the next grant, as they do where the store hands the lock over.
   */
  handOff(hold: Hold): boolean {
    const { grant } = hold.watchdog
    if (this.#nextEntry(hold) === undefined) {
      if (this.#mayCache(hold)) {
        queue.holdBack(this.#state, hold)
        this.#cache ??= new GrantCache(this.engine, this)
        this.#cache.keep(hold)
        hold.onHandedOff()
        return true
      }
      queue.removeHold(this.#state, hold)
      return false
    }
    if (grant.nextReservedToken === undefined && grant.nextToken !== undefined)
      return this.#handOffWithMintedToken(hold, grant)
    if (!this.#handoffLimit().mustYield) return this.#handOffNow(hold)
    queue.holdBack(this.#state, hold)
    this.engine.clock.soon(() => this.#afterYield(hold))
    hold.onHandedOff()
    return true
  }

  /** The store mints the next token. Nobody here holds the lock meanwhile, and it stays taken for others. */
  #handOffWithMintedToken(hold: Hold, grant: Grant): boolean {
    const { watchdog } = hold
    const token = this.#canHandOff(hold) ? grant.nextToken?.() : undefined
    if (token === undefined) {
      queue.removeHold(this.#state, hold)
      return false
    }
    queue.holdBack(this.#state, hold)
    // Later than that, too little is left for the next holder.
    const timeout = watchdog.remaining - minTtlShare * watchdog.maxLeaseTtl
    const stopped = new Promise<undefined>((resolve) => {
      this.#stopMinting = () => resolve(undefined)
    })
    void withTimeout(this.engine, timeout, Promise.race([token, stopped]), (token) => {
      if (this.#state.heldBack !== hold) return
      const next = this.#nextEntry(hold)
      if (token === undefined || next === undefined || !isFit(watchdog)) {
        queue.removeHold(this.#state, hold)
        void watchdog.release()
      } else this.#handOver(hold, next, token, false)
      this.#pump()
    })
    hold.onHandedOff()
    return true
  }

  /** It was lost after its release, while it is to be passed on: its heirs do not wait for the token. */
  abandonHandoff(hold: Hold): void {
    if (this.#state.heldBack !== hold) return
    this.#stopMinting?.()
    if (this.#cache?.hold !== hold) return
    this.#cache?.take()
    queue.removeHold(this.#state, hold)
    this.#pump()
  }

  /** Nobody waits here or, as far as reported, elsewhere. */
  #mayCache(hold: Hold): boolean {
    const { queue: waiting, asking } = this.#state
    return !this.engine.closed && waiting.size === 0 && asking.size === 0 && mayKeep(hold)
  }

  /** The cached grant goes back to the store. */
  endCaching(): void {
    void this.endCachingNow()
  }

  /** Resolves once the store has replied, or has had the time for it. */
  async endCachingNow(): Promise<void> {
    const hold = this.#cache?.take()
    if (hold === undefined) return
    this.#cache?.stopTimer()
    queue.removeHold(this.#state, hold)
    const { watchdog } = hold
    const answer = this.engine.releases.answered(watchdog, watchdog.release(), () => undefined)
    this.#pump()
    await answer
  }

  /** The next local request after a release. True: it has the grant, or will have it after a turn of the event loop. */
  #reuse(hold: Hold, request: QueueEntry, once: boolean): boolean {
    const { watchdog } = hold
    const fits =
      !this.#cache?.isOver && !request.terms.fair && request.batch === undefined && canReceive(request, hold)
    // A loop of single attempts gets its turn of the event loop from the store.
    const mustYield = fits && this.#handoffLimit().mustYield
    if (!fits || !canReuse(watchdog) || (mustYield && once)) {
      this.endCaching()
      return false
    }
    if (mustYield) {
      this.#cache?.take()
      this.#state.queue.add(request)
      this.engine.clock.soon(() => this.#afterYield(hold))
      return true
    }
    // The caller's wait has ended, and it has been notified.
    if (!request.deadline.isStillWaiting()) return true
    const token = watchdog.grant.nextReservedToken?.()
    if (token === undefined) {
      this.endCaching()
      return false
    }
    this.#cache?.take()
    this.#handOver(hold, request, token, false)
    return true
  }

  /** The event loop has turned. The heir may have gone by now, and waiters in the store may have been reported. */
  #afterYield(hold: Hold): void {
    if (this.#state.heldBack !== hold) return
    if (!this.#handOffNow(hold, false)) void hold.watchdog.release()
    this.#pump()
  }

  /** False: the grant must go back to the store. */
  #handOffNow(hold: Hold, reports = true): boolean {
    const next = this.#nextEntry(hold)
    const token = next && this.#canHandOff(hold) ? hold.watchdog.grant.nextReservedToken?.() : undefined
    if (next === undefined || token === undefined) {
      queue.removeHold(this.#state, hold)
      return false
    }
    this.#handOver(hold, next, token, reports)
    return true
  }

  #canHandOff({ watchdog }: Hold): boolean {
    return this.#handoffLimit().tryHandoff(watchdog.grant) && isFit(watchdog)
  }

  /** @param reports the release has not been reported yet */
  #handOver(hold: Hold, next: QueueEntry, token: number, reports: boolean): void {
    queue.handedOver(this.#state, hold, next)
    const now = this.engine.clock.now()
    this.#deliver(next, hold.watchdog, token, now, true, reports ? hold : undefined)
  }

  /** Queries the holder in the store, once for all waits that end together. */
  inspectOnce(): Promise<FinalInspection> {
    this.#inspection ??= withTimeout(this.engine, inspectTimeout, this.#inspect(), (seen) => {
      this.#inspection = undefined
      return seen ?? { answered: false }
    })
    return this.#inspection
  }

  async #inspect(): Promise<FinalInspection> {
    try {
      const { holders } = await this.engine.driver.inspect(this.name)
      return { answered: true, holder: holders.find(({ expiresIn }) => expiresIn > 0) }
    } catch (error) {
      return error instanceof BackendError ? { answered: !error.unanswered, error } : { answered: true }
    }
  }

  /** A hold without an heir has been sent back to the store. */
  returned(): void {
    this.#pump()
  }

  /** The driver reported what blocks a request. */
  blocked(request: QueueEntry, by: WaitStatus): void {
    request.blocked(by)
    const { driver, events, clock } = this.engine
    this.lastError = by.error
    this.lastStatus = by.error === undefined ? { by, at: clock.now() } : undefined
    const { mode, terms, acquisition } = request
    if (by.error !== undefined) events.storeFailed(driver.name, this.name, 'acquire', by.error)
    if (!events.wants('waiting')) return
    const about = { name: this.name, driver: driver.name, mode, note: terms.note, acquisition }
    events.emit('waiting', { ...about, blocked: by })
  }

  /** The writer has left, its readers stay. A driver that cannot downgrade keeps the exclusive hold for them. */
  async downgrade(hold: Hold): Promise<void> {
    const downgrade = hold.watchdog.grant.downgrade?.()
    if (downgrade === undefined) return
    // From now on: the store may let readers in before it replies, so nobody enters or inherits this hold as a writer.
    hold.mode = shared
    // If the reply is lost, the hold stays exclusive in the store: safe, and renewals go on.
    await downgrade.catch(() => undefined)
    queue.downgraded(this.#state, hold)
    this.#pump()
  }

  async close(): Promise<void> {
    const { queue: queued, asking } = this.#state
    for (const request of [...queued]) request.deadline.end('closed')
    const sent = [...asking]
    for (const { owner } of sent) owner?.deadline.end('closed')
    // Only now: a listener of those ends may have released a hold.
    const { heldBack } = this.#state
    this.#cache?.take()
    if (heldBack !== undefined) queue.removeHold(this.#state, heldBack)
    this.#stopMinting?.()
    if (heldBack !== undefined) void heldBack.watchdog.release()
    const holds = [...this.#state.holds].map((hold) => hold.close())
    await withTimeout(
      this.engine,
      closeTimeout,
      Promise.all([...holds, ...[...asking].map(({ reply }) => reply)]),
      () => undefined,
    )
  }

  #pumpConcurrent(): void {
    if (this.engine.closed) return
    for (let next = queue.pumpConcurrent(this.#state); next; next = queue.pumpConcurrent(this.#state))
      this.#ask(next)
  }

  #pump(): void {
    if (this.engine.closed) return
    for (let next = queue.pump(this.#state); next; next = queue.pump(this.#state)) this.#ask(next)
    if (this.isEmpty) this.engine.idle(this)
  }

  /** @param patient how long a single attempt waits in the queue, in ms */
  #ask(ask: queue.Ask<QueueEntry>, patient?: number): void {
    const { entry, once } = ask
    const { linger, fair, autoRenew } = entry.terms
    const id = this.engine.env.id()
    const caches = linger > 0 && !fair && autoRenew && entry.mode.kind === 'exclusive'
    const attempt = caches ? cacheable(id) : id
    const claim = createClaim(this.name, attempt, entry.mode, entry.terms)
    const request = new StoreRequest(this, claim, entry, once)
    if (patient !== undefined) request.bePatient(patient)
    // First: a driver may report at once what blocks the claim.
    queue.asked(this.#state, request, ask)
    request.reply = this.#send(request, entry.batch).then(
      (grant) => this.#arrived(request, grant),
      (error) => this.#failed(request, error),
    )
  }

  #send(request: StoreRequest, batch: ClaimBatch | undefined): Promise<Grant | undefined> {
    try {
      return batch?.add(request.claim, request) ?? this.engine.driver.acquire(request.claim, request)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #answeredOwner(request: StoreRequest): QueueEntry | undefined {
    const owner = queue.arrived(this.#state, request)
    request.done()
    if (this.#state.asking.size === 0) {
      this.lastStatus = undefined
      this.lastError = undefined
    }
    return owner
  }

  #failed(request: StoreRequest, error: unknown): void {
    const owner = this.#answeredOwner(request)
    const { mode } = request.claim
    if (mode.kind === 'permits' && error instanceof RangeError) this.engine.limits.refused(this.name, mode.of)
    owner?.deadline.done()
    owner?.failed(error)
    this.#pump()
  }

  #arrived(request: StoreRequest, grant: Grant | undefined): void | Promise<void> {
    const { clock } = this.engine
    // The reply may have waited for a machine that slept.
    clock.noticeSleep()
    const now = clock.now()
    const { mode } = request.claim
    if (grant !== undefined && mode.kind === 'permits') this.engine.limits.accepted(this.name, mode.of)
    const { owner } = request
    const isSingle = request.once && request.remaining() === 0
    if (grant === undefined || owner === undefined || request.ended || isSingle)
      this.#conclude(request, grant)
    else if (!isShortened(grant, owner.terms, now)) this.#conclude(request, grant)
    // The request goes on meanwhile: the wait may end, or another caller of this process may take it over.
    else return renewed(this.engine, grant, request).then((kept) => this.#conclude(request, grant, kept))
  }

  /** @param kept false: the store has replied that the grant is over */
  #conclude(request: StoreRequest, grant: Grant | undefined, kept = true): void {
    const owner = this.#answeredOwner(request)
    // First of all: a listener of such a loss may end this very wait.
    const newest = grant === undefined || this.#supersede(request.claim, grant)
    this.engine.clock.noticeSleep()
    const now = this.engine.clock.now()
    // Only where it matters: the check ends a wait that is over.
    const matters = grant !== undefined || request.reassigned
    const outcome = queue.conclude(request, {
      owned: owner !== undefined,
      waiting: matters && owner?.deadline.isStillWaiting() === true,
      granted: grant !== undefined,
      usable: kept && grant !== undefined && owner !== undefined && usable(grant, owner.terms, now),
      newest,
    })
    if (grant !== undefined && outcome !== 'deliver') this.#returnUnused(request, grant)
    if (
      owner !== undefined &&
      outcome === 'refuse' &&
      grant === undefined &&
      this.#mayOnlyBeCached(request, owner)
    )
      this.#ask({ entry: owner, once: true, turn: false }, patience(now - request.sent, owner.terms.ttl))
    else if (owner !== undefined) this.#perform(outcome, request, owner, grant, now)
    this.#pump()
  }

  /** A cache in another process must not refuse a single attempt, which therefore asks once more, as a waiter. */
  #mayOnlyBeCached({ cached, isPatient }: StoreRequest, owner: QueueEntry): boolean {
    return cached && !isPatient && owner.batch === undefined && owner.deadline.isStillWaiting()
  }

  #perform(
    outcome: queue.Outcome,
    { claim }: StoreRequest,
    owner: QueueEntry,
    grant: Grant | undefined,
    now: number,
  ): void {
    if (outcome === 'deliver' && grant !== undefined) {
      this.#madeLimit?.begin()
      this.#deliver(owner, new Watchdog(this.engine, claim, grant, owner.terms, now), grant.token, now, false)
    } else if (outcome === 'ask-again') this.#ask(queue.askAgain(this.#state, owner))
    else if (outcome === 'refuse') this.#refuse(owner)
    else if (outcome === 'too-late') this.#replyTooLate(owner)
    else if (outcome === 'time-out') owner.deadline.end('deadline')
  }

  /**
   * The store grants nothing beside a hold that excludes it. So an older hold of this process, also one that is being
   * passed on, is over in the store: an operator or the end of its session removed it, and the notice has not arrived
   * yet.
   * @returns false: the grant itself is the older one
   */
  #supersede({ mode }: Claim, grant: Grant): boolean {
    const others = queue.excludedBy(this.#state, mode)
    for (const { token, watchdog } of others) {
      if (token < grant.token && watchdog.checkNow() !== 'lost') watchdog.lose('revoked')
    }
    return others.every(({ token }) => token < grant.token)
  }

  #refuse(entry: QueueEntry): void {
    entry.deadline.done()
    entry.granted(undefined)
  }

  #replyTooLate(owner: QueueEntry): void {
    owner.deadline.done()
    const message = `its answer about ${quote(this.name)} took so long that hardly anything is left of ${owner.terms.ttl} ms; try again, or with a longer ttl`
    owner.failed(new BackendError(this.engine.driver.name, message))
  }

  #returnUnused({ claim }: StoreRequest, grant: Grant): void {
    void this.#unused(claim, grant).release()
  }

  #unused(claim: Claim, grant: Grant): Watchdog {
    return new Watchdog(this.engine, claim, grant, { ttl: claim.ttl, lockDelay: 0, autoRenew: false })
  }

  /** @param former its release is reported before the grant */
  #deliver(
    request: QueueEntry,
    watchdog: Watchdog,
    token: number,
    now: number,
    handedOff: boolean,
    former?: Hold,
  ): void {
    request.deadline.done()
    const hold = new Hold(this, watchdog, token, request.terms, now)
    queue.held(this.#state, hold)
    former?.onHandedOff()
    const { events } = this.engine
    if (events.wants('granted'))
      // Written out: a spread costs more than the rest of the event.
      events.emit('granted', {
        name: this.name,
        driver: this.engine.driver.name,
        mode: hold.mode,
        note: hold.note,
        token,
        acquisition: request.acquisition,
        waited: now - request.asked,
        handedOff,
      })
    request.granted(hold)
  }

  /** The first who still waits, if this very grant is what it asks for. */
  #nextEntry(hold: Hold): QueueEntry | undefined {
    for (const { deadline } of this.#state.queue) if (deadline.isStillWaiting()) break
    return queue.findSuccessor(this.#state, hold)
  }
}
