/**
 * The queue of one process for one name.
 * Long because it is one state machine: read all transitions before you change one.
 *
 * ```
 *   ask ──► queue ──► turn ──► the driver ──► Hold ──► released ──┐
 *             ▲         (one at a time)         ▲                 │
 *             │                                 └── passed on ◄───┤ if a local heir may have the grant
 *             └────────────────── pump ◄──────────────────────────┘ else the grant goes back to the store
 * ```
 * A thousand requests in one process cost the store one waiter: only the head of the queue has the *turn* and waits
 * in the store's queue. When the head gives up, the next compatible request takes over its turn, and with it its
 * queue entry.
 * While an exclusive hold is alive in this process no request takes the turn: the hold will be handed over locally,
 * or released first.
 * `fair` requests and single attempts have their own turns, beside the queue. So do readers and takers of permits
 * while one of their kind holds in this process and none of them is blocked.
 * Local hand-overs are bounded while others wait in the store's queue: see `local-handoff.ts`.
 */

import type { ClaimBatch } from './claim-batch.js'
import { ttlWithDelay } from './clock.js'
import type { Claim, Grant, Holder, Wait, WaitStatus } from './driver.js'
import type { Engine } from './engine.js'
import { BackendError } from './errors.js'
import { isStale, renewed, usable } from './grant-freshness.js'
import { Hold } from './hold.js'
import { canReceive, canTakeOver, HandoffLimit, leastShareToPass } from './local-handoff.js'
import { type Mode, shared } from './mode.js'
import { quote } from './name.js'
import type { Terms } from './options.js'
import { StoreRequest } from './store-request.js'
import type { WaitDeadline } from './wait-deadline.js'
import { Watchdog } from './watchdog.js'
import { closeTimeout, withTimeout } from './with-timeout.js'

export interface QueueEntry {
  readonly mode: Mode
  readonly terms: Terms
  readonly deadline: WaitDeadline
  /** Clock reading of the call. */
  readonly asked: number
  /** The number that its events carry. */
  readonly acquisition: number
  /** The batch in which its claim goes to the store. */
  readonly party?: ClaimBatch | undefined
  /** `undefined`: the lock was not free for a single attempt. */
  granted(hold: Hold | undefined): void
  failed(error: unknown): void
  /** The store reported what blocks the request. */
  blocked(by: WaitStatus): void
}

/** What the store reported at the end of a wait. */
export interface LastLook {
  /** Did it reply? */
  readonly answered: boolean
  readonly holder?: Holder | undefined
  /** Why it did not. */
  readonly error?: BackendError
}

/** Longest time to query the present holder at the end of a wait, in ms; the error comes later by that time. */
const longestLook = 2_000
/** Requests of one name on their way to the store at once, among those that can hold side by side. */
const mostAtOnce = 64

export class LocalQueue {
  readonly engine: Engine
  readonly name: string
  readonly #queue = new Set<QueueEntry>()
  readonly #holds = new Set<Hold>()
  /** The exclusive one among the holds. */
  #writer: Hold | undefined
  /** Released by its holder and not handed over yet: the event loop turns first, or the store mints a token. */
  #resting: Hold | undefined
  /** Ends the wait for the next token of the resting hold. */
  #stopMinting: (() => void) | undefined
  /** The queue's turn. */
  #turn: StoreRequest | undefined
  /** Every turn that the driver has not answered yet, with the promise of its reply. */
  readonly #turns = new Map<StoreRequest, Promise<void>>()
  readonly #passing: HandoffLimit
  /** The query for the holder at the end of waits. */
  #looking: Promise<LastLook> | undefined
  /** The last report to the head of the queue on who holds the lock, and the clock reading then. */
  lastStatus: { readonly by: WaitStatus; readonly at: number } | undefined
  /** Why the store could not serve requests, as last reported. */
  trouble: BackendError | undefined

  constructor(engine: Engine, name: string) {
    this.engine = engine
    this.name = name
    this.#passing = new HandoffLimit(engine.clock)
  }

  /** Nobody in this process holds or waits. */
  get isEmpty(): boolean {
    return (
      this.#queue.size === 0 &&
      this.#holds.size === 0 &&
      this.#turns.size === 0 &&
      this.#resting === undefined
    )
  }

  /** Nobody in this process waits, has a request under way or keeps others out. */
  get isUncontended(): boolean {
    return this.#queue.size === 0 && this.#turns.size === 0 && !this.#taken
  }

  /** An exclusive hold is alive in this process. */
  get #taken(): boolean {
    return this.#writer !== undefined || this.#resting !== undefined
  }

  /**
   * Do `most` or more of this process wait, in the queue or for the store's reply? Single attempts do not wait,
   * unless a wait for several locks begins with one.
   */
  isFull(most: number): boolean {
    let count = this.#queue.size
    if (count >= most) return true
    if (most === Number.POSITIVE_INFINITY) return false
    for (const { owner, once } of this.#turns.keys()) {
      if (owner !== undefined && (!once || owner.party?.waits === true)) count++
      if (count >= most) return true
    }
    return false
  }

  /** Holds, doubtful holds and requests of this process. */
  counts(): { held: number; doubtful: number; waiting: number } {
    let doubtful = 0
    for (const hold of this.#holds) if (hold.state() === 'doubtful') doubtful++
    let waiting = this.#queue.size
    for (const { owner } of this.#turns.keys()) if (owner !== undefined) waiting++
    return { held: this.#holds.size, doubtful, waiting }
  }

  /** A single attempt (`once`) never waits behind others: if the queue is busy for it, it ends without any I/O. */
  enqueue(request: QueueEntry, once: boolean): void {
    if (!once && !request.terms.fair) {
      if (this.#queue.size === 0 && this.#turn === undefined && !this.#taken) {
        this.#turn = this.#begin(request, false)
      } else {
        this.#queue.add(request)
        this.#sideBySide()
      }
    } else if (once && this.#busyFor(request.mode)) {
      request.deadline.done()
      request.granted(undefined)
    } else {
      this.#begin(request, once)
    }
  }

  /** Local readers do not block a reader, nor permits permits: only the store knows whether they fit. */
  #busyFor({ kind }: Mode): boolean {
    if (this.#taken) return true
    if (this.#turn === undefined) return this.#queue.size > 0
    if (kind === 'exclusive' || this.#turn.claim.mode.kind !== kind) return true
    for (const { mode } of this.#queue) if (mode.kind !== kind) return true
    return false
  }

  /** The caller has gone: deadline, abort or close. */
  cancel(request: QueueEntry): void {
    if (!this.#queue.delete(request)) {
      for (const turn of this.#turns.keys()) if (turn.owner === request) this.#abandon(turn)
    }
    this.#pump()
  }

  /** The holder in this process, for error messages. */
  localHolder(): Holder | undefined {
    const [hold = this.#resting] = this.#holds
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

  /** A hold ended by loss. */
  ended(hold: Hold): void {
    this.#forget(hold)
    this.#pump()
  }

  /**
   * Takes over the grant that another process held, with its token. Undefined: it is no longer held.
   * @param claim has the attempt of that hold; `wait` is a single attempt
   */
  async adopt(claim: Claim, token: number, terms: Terms, wait: Wait): Promise<Hold | undefined> {
    const grant = await this.engine.awaited(this.engine.driver.acquire(claim, wait))
    if (grant === undefined) return undefined
    // The engine may have dropped this line meanwhile, because it was idle; close() releases what is in the line that
    // the engine knows.
    return this.engine.line(this.name, this).#adopted(claim, grant, token, terms)
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
    this.#holds.add(hold)
    if (hold.mode.kind === 'exclusive') this.#writer = hold
    this.engine.events.emit('granted', { ...hold.about(), acquisition: 0, waited: 0, handedOff: false })
    return hold
  }

  /** A hold ended by release. True: a local request has inherited it, or is about to; else the grant must go back to the store. */
  handOff(hold: Hold): boolean {
    if (this.#heir(hold) === undefined || hold.revoked) return this.#passNow(hold)
    const { grant } = hold.watchdog
    if (grant.nextReservedToken === undefined && grant.nextToken !== undefined)
      return this.#passByRequest(hold, grant)
    if (!this.#passing.tired) return this.#passNow(hold)
    this.#rest(hold)
    this.engine.clock.soon(() => this.#rested(hold))
    return true
  }

  #rest(hold: Hold): void {
    this.#forget(hold)
    this.#resting = hold
  }

  /** The store mints the next token. Nobody here holds the lock meanwhile, and it stays taken for others. */
  #passByRequest(hold: Hold, grant: Grant): boolean {
    const { watchdog } = hold
    const token = this.#mayPass(hold) ? grant.nextToken?.() : undefined
    if (token === undefined) {
      this.#forget(hold)
      return false
    }
    this.#rest(hold)
    // Later than that, too little is left for the next holder.
    const patience = watchdog.remaining - leastShareToPass * watchdog.worth
    const stopped = new Promise<undefined>((resolve) => {
      this.#stopMinting = () => resolve(undefined)
    })
    void withTimeout(this.engine, patience, Promise.race([token, stopped]), (token) => {
      if (this.#resting !== hold) return
      this.#resting = undefined
      const heir = this.#heir(hold)
      if (token === undefined || heir === undefined || hold.revoked || !isFit(watchdog)) {
        void watchdog.release()
      } else {
        this.#queue.delete(heir)
        this.#deliver(heir, watchdog, token, this.engine.clock.now(), true)
      }
      this.#pump()
    })
    return true
  }

  /** It was lost after its release, while it is to be passed on: its heirs do not wait for the token. */
  lostResting(hold: Hold): void {
    if (this.#resting === hold) this.#stopMinting?.()
  }

  /** The event loop has turned. The heir may have gone by now, and waiters in the store may have been reported. */
  #rested(hold: Hold): void {
    if (this.#resting !== hold) return
    this.#resting = undefined
    if (!this.#passNow(hold)) void hold.watchdog.release()
    this.#pump()
  }

  #passNow(hold: Hold): boolean {
    const { watchdog } = hold
    const heir = this.#heir(hold)
    const token = heir !== undefined && this.#mayPass(hold) ? watchdog.grant.nextReservedToken?.() : undefined
    if (heir !== undefined && token !== undefined) {
      this.#queue.delete(heir)
      this.#deliver(heir, watchdog, token, this.engine.clock.now(), true)
    }
    this.#forget(hold)
    return token !== undefined
  }

  #mayPass({ watchdog, revoked }: Hold): boolean {
    return !revoked && this.#passing.allowed(watchdog.grant) && isFit(watchdog)
  }

  /** Queries the holder in the store, once for all waits that end together. */
  lastLook(): Promise<LastLook> {
    this.#looking ??= withTimeout(this.engine, longestLook, this.#look(), (seen) => {
      this.#looking = undefined
      return seen ?? { answered: false }
    })
    return this.#looking
  }

  async #look(): Promise<LastLook> {
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
    this.trouble = by.error
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
    if (this.#writer === hold) this.#writer = undefined
    this.#pump()
  }

  async close(): Promise<void> {
    for (const request of [...this.#queue]) request.deadline.end('closed')
    for (const turn of [...this.#turns.keys()]) turn.owner?.deadline.end('closed')
    const resting = this.#resting
    this.#resting = undefined
    this.#stopMinting?.()
    if (resting !== undefined) void resting.watchdog.release()
    const holds = [...this.#holds].map((hold) => hold.close())
    await withTimeout(
      this.engine,
      closeTimeout,
      Promise.all([...holds, ...this.#turns.values()]),
      () => undefined,
    )
  }

  #forget(hold: Hold): void {
    this.#holds.delete(hold)
    if (this.#writer === hold) this.#writer = undefined
  }

  /**
   * Readers, and takers of permits, do not wait for each other's replies: while one of their kind holds in this
   * process and none of them is blocked, the others send their own requests.
   */
  #sideBySide(): void {
    if (this.engine.closed) return
    for (const request of this.#queue) {
      if (!this.#roomBeside(request.mode)) return
      this.#queue.delete(request)
      this.#begin(request, false)
    }
  }

  #roomBeside(mode: Mode): boolean {
    const [hold] = this.#holds
    if (mode.kind === 'exclusive' || this.#taken || hold?.mode.kind !== mode.kind) return false
    if (this.#turns.size >= mostAtOnce) return false
    for (const turn of this.#turns.keys())
      if (turn.reported || turn.claim.mode.kind !== mode.kind) return false
    if (mode.kind !== 'permits') return true
    let left = mode.of - mode.take
    for (const { mode: held } of this.#holds) if (held.kind === 'permits') left -= held.take
    for (const { claim } of this.#turns.keys()) if (claim.mode.kind === 'permits') left -= claim.mode.take
    return left >= 0
  }

  #pump(): void {
    if (this.#turn !== undefined || this.engine.closed) return
    this.#sideBySide()
    const [head] = this.#queue
    if (head === undefined) {
      if (this.isEmpty) this.engine.idle(this)
      return
    }
    if (this.#taken) return
    this.#queue.delete(head)
    this.#turn = this.#begin(head, false)
  }

  #begin(request: QueueEntry, once: boolean): StoreRequest {
    const { mode, terms } = request
    const { driver, env } = this.engine
    const claim = claimOf(this.name, env.id(), mode, terms)
    const turn = new StoreRequest(this, claim, request, once)
    const asked = request.party?.add(claim, turn) ?? driver.acquire(claim, turn)
    const answer = asked.then(
      (grant) => this.#arrived(turn, grant),
      (error) => this.#failed(turn, error),
    )
    this.#turns.set(turn, answer)
    return turn
  }

  #answeredTurn(turn: StoreRequest): QueueEntry | undefined {
    this.#turns.delete(turn)
    if (this.#turn === turn) this.#turn = undefined
    if (this.#turns.size === 0) {
      this.lastStatus = undefined
      this.trouble = undefined
    }
    const { owner } = turn
    turn.answered()
    return owner
  }

  #failed(turn: StoreRequest, error: unknown): void {
    const owner = this.#answeredTurn(turn)
    const { mode } = turn.claim
    if (mode.kind === 'permits' && error instanceof RangeError) this.engine.limits.refused(this.name, mode.of)
    owner?.deadline.done()
    owner?.failed(error)
    this.#pump()
  }

  #arrived(turn: StoreRequest, grant: Grant | undefined): void | Promise<void> {
    const { clock } = this.engine
    // The reply may have waited for a machine that slept.
    clock.noticeSleep()
    const now = clock.now()
    const { mode } = turn.claim
    if (grant !== undefined && mode.kind === 'permits') this.engine.limits.accepted(this.name, mode.of)
    const { owner } = turn
    if (grant === undefined || owner === undefined || turn.remaining() === 0) this.#answered(turn, grant)
    else if (!isStale(grant, owner.terms, now)) this.#answered(turn, grant)
    // The turn goes on meanwhile: the wait may end, or another request of this process may take the turn over.
    else return renewed(this.engine, grant, turn).then((kept) => this.#answered(turn, grant, kept))
  }

  /** @param kept false: the store has replied that the grant is over */
  #answered(turn: StoreRequest, grant: Grant | undefined, kept = true): void {
    const owner = this.#answeredTurn(turn)
    // First of all: a listener of such a loss may end this very wait.
    const newest = grant === undefined || this.#supersede(turn.claim, grant)
    this.engine.clock.noticeSleep()
    const now = this.engine.clock.now()
    if (grant === undefined) this.#nothing(turn, owner)
    else if (owner?.deadline.isStillWaiting(now) !== true) this.#returnUnused(turn, grant)
    else if (!kept || !newest || !usable(grant, owner.terms, now)) {
      this.#returnUnused(turn, grant)
      // Retry while there is time. The store did not reply "not free" to a single attempt, so its caller gets that
      // result only if another holds here.
      turn.reassigned = true
      if (turn.once && newest) this.#tooLate(owner)
      else this.#nothing(turn, owner)
    } else {
      this.#passing.begin()
      this.#deliver(
        owner,
        new Watchdog(this.engine, turn.claim, grant, owner.terms, now),
        grant.token,
        now,
        false,
      )
    }
    this.#pump()
  }

  /**
   * The store grants nothing beside a hold that excludes it. So an older hold of this process, also one that is being
   * passed on, is over in the store: an operator or the end of its session removed it, and the notice has not arrived
   * yet.
   * @returns false: the grant itself is the older one
   */
  #supersede({ mode }: Claim, grant: Grant): boolean {
    if (!this.#taken && this.#holds.size === 0) return true
    const all = this.#resting === undefined ? [...this.#holds] : [...this.#holds, this.#resting]
    const others = all.filter((hold) => mode.kind === 'exclusive' || hold.mode.kind === 'exclusive')
    for (const { token, watchdog } of others) if (token < grant.token) watchdog.lose('revoked')
    return others.every(({ token }) => token < grant.token)
  }

  /** No grant. A turn begun for a less patient request goes on for its new owner. */
  #nothing(turn: StoreRequest, owner: QueueEntry | undefined): void {
    if (owner === undefined) return
    if (turn.once) {
      owner.deadline.done()
      owner.granted(undefined)
    } else if (turn.reassigned && owner.deadline.isStillWaiting()) {
      const again = this.#begin(owner, false)
      if (!owner.terms.fair) this.#turn ??= again
    } else owner.deadline.end('deadline')
  }

  #tooLate(owner: QueueEntry): void {
    owner.deadline.done()
    const told = `its answer about ${quote(this.name)} took so long that hardly anything is left of ${owner.terms.ttl} ms; try again, or with a longer ttl`
    owner.failed(new BackendError(this.engine.driver.name, told))
  }

  #returnUnused({ claim }: StoreRequest, grant: Grant): void {
    void this.#unused(claim, grant).release()
  }

  #unused(claim: Claim, grant: Grant): Watchdog {
    return new Watchdog(this.engine, claim, grant, { ttl: claim.ttl, lockDelay: 0, autoRenew: false })
  }

  #abandon(turn: StoreRequest): void {
    const [heir] = this.#queue
    if (this.#turn === turn && heir !== undefined && canTakeOver(heir, turn.claim)) {
      this.#queue.delete(heir)
      turn.reassign(heir)
      return
    }
    if (this.#turn === turn) this.#turn = undefined
    turn.abandon()
  }

  #deliver(request: QueueEntry, watchdog: Watchdog, token: number, now: number, handedOff: boolean): void {
    request.deadline.done()
    const hold = new Hold(this, watchdog, token, request.terms, now)
    this.#holds.add(hold)
    if (hold.mode.kind === 'exclusive') this.#writer = hold
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

  /** The head of the queue, if this very grant is what it asks for. */
  #heir(hold: Hold): QueueEntry | undefined {
    for (const request of this.#queue)
      if (request.deadline.isStillWaiting()) return canReceive(request, hold) ? request : undefined
    return undefined
  }
}

/** Held, and with enough time left for another holder. */
function isFit(watchdog: Watchdog): boolean {
  return watchdog.settle() === 'held' && watchdog.remaining >= leastShareToPass * watchdog.worth
}

/** With a lock-delay the core asks the store for more time than it gives the caller: see `watchdog.ts`. */
export function claimOf(name: string, attempt: string, mode: Mode, terms: Terms): Claim {
  const { fair, ttl, lockDelay, note } = terms
  const claim = { name, attempt, mode, fair, ttl: ttlWithDelay(ttl, lockDelay) }
  if (lockDelay === 0 && note === undefined) return claim
  return { ...claim, ...(lockDelay > 0 && { lockDelay }), ...(note !== undefined && { note }) }
}
