/**
 * The line inside one process for one name.
 * Long because it is one state machine: whoever changes a transition should see them all.
 *
 * ```
 *   ask ──► queue ──► turn ──► the driver ──► Hold ──► released ──┐
 *             ▲         (one at a time)         ▲                 │
 *             │                                 └── passed on ◄───┤ a local heir may have it
 *             └─────────────────── pump ◄───────────────────────────┘ else it goes back to the store
 * ```
 * A thousand requests in one process cost the store one waiter: only the head of the queue has the *turn* and stands in
 * the store's line. When the head gives up, the next compatible request takes over its turn, and with it its place.
 * While an exclusive hold is alive here nobody takes the turn: the hold will be passed on, or given back first.
 * `fair` requests and single attempts have a turn of their own beside the queue.
 * Passing on is bounded while others stand in the store's line: see `passing.ts`.
 */
import { longestGoodbye, within } from './answer.js'
import { ttlWithDelay } from './clock.js'
import type { Blocked, Claim, Grant, Holder, Wait } from './driver.js'
import type { Engine } from './engine.js'
import { BackendError } from './errors.js'
import { Hold } from './hold.js'
import { type Mode, shared } from './mode.js'
import { quote } from './name.js'
import type { Terms } from './options.js'
import { mayInherit, mayTakeOver, Passing } from './passing.js'
import type { Party } from './together.js'
import { Turn } from './turn.js'
import type { Patience } from './wait.js'
import { Watchdog } from './watchdog.js'

export interface Request {
  readonly mode: Mode
  readonly terms: Terms
  readonly patience: Patience
  /** Clock reading of the call. */
  readonly asked: number
  /** Its claim goes to the store together with others. */
  readonly party?: Party | undefined
  /** `undefined`: a single attempt found it not free. */
  granted(hold: Hold | undefined): void
  failed(error: unknown): void
  /** The store told what stands in the way. */
  blocked(by: Blocked): void
}

export class Line {
  readonly engine: Engine
  readonly name: string
  readonly #queue = new Set<Request>()
  readonly #holds = new Set<Hold>()
  /** The hold among them that is exclusive. */
  #writer: Hold | undefined
  /** The queue's turn. */
  #turn: Turn | undefined
  /** Every turn the driver has not answered yet, with the promise of its answer. */
  readonly #turns = new Map<Turn, Promise<void>>()
  readonly #passing: Passing

  constructor(engine: Engine, name: string) {
    this.engine = engine
    this.name = name
    this.#passing = new Passing(engine.clock)
  }

  /** Nobody here holds or waits. */
  get idle(): boolean {
    return this.#queue.size === 0 && this.#holds.size === 0 && this.#turns.size === 0
  }

  /** Nobody here waits, asks or keeps others out. */
  get quiet(): boolean {
    return this.#queue.size === 0 && this.#turns.size === 0 && this.#writer === undefined
  }

  /** A single attempt (`once`) never waits behind others: it finds the line busy without any I/O, if it is busy for it. */
  ask(request: Request, once: boolean): void {
    if (!once && !request.terms.fair) {
      if (this.#queue.size === 0 && this.#turn === undefined && this.#writer === undefined) {
        this.#turn = this.#begin(request, false)
      } else this.#queue.add(request)
    } else if (once && this.#busyFor(request.mode)) {
      request.patience.done()
      request.granted(undefined)
    } else {
      this.#begin(request, once)
    }
  }

  /** Readers are no reason to refuse a reader, nor permits to refuse permits: the store knows whether there is room. */
  #busyFor({ kind }: Mode): boolean {
    if (this.#writer !== undefined) return true
    if (this.#turn === undefined) return this.#queue.size > 0
    if (kind === 'exclusive' || this.#turn.claim.mode.kind !== kind) return true
    for (const { mode } of this.#queue) if (mode.kind !== kind) return true
    return false
  }

  /** The caller has gone: deadline, abort or close. */
  leave(request: Request): void {
    if (!this.#queue.delete(request)) {
      for (const turn of this.#turns.keys()) if (turn.owner === request) this.#abandon(turn)
    }
    this.#pump()
  }

  /** Who in this process stands in the way, for error messages. */
  localHolder(): Holder | undefined {
    const [hold] = this.#holds
    if (hold === undefined) return undefined
    const { claim } = hold.watchdog
    return {
      attempt: claim.attempt,
      mode: hold.mode,
      token: hold.token,
      heldFor: this.engine.clock.now() - hold.since,
      expiresIn: hold.watchdog.remaining,
      by: `${this.engine.env.by} (this process)`,
      ...(hold.note === undefined ? {} : { note: hold.note }),
    }
  }

  /** A hold ended by loss. */
  ended(hold: Hold): void {
    this.#forget(hold)
    this.#pump()
  }

  /**
   * Takes over what another process held, with the token it had. Undefined: it holds no more.
   * @param claim with the attempt of that hold; `wait` is a single attempt
   */
  async adopt(claim: Claim, token: number, terms: Terms, wait: Wait): Promise<Hold | undefined> {
    const grant = await this.engine.driver.acquire(claim, wait)
    if (grant === undefined) return undefined
    let last = grant.token
    // What was passed on inside the other process has used up part of the reserve.
    while (last < token) last = grant.pass?.() ?? Number.POSITIVE_INFINITY
    const now = this.engine.clock.now()
    if (last !== token || !usable(grant, terms, now) || this.engine.closed) {
      await grant.release()
      return undefined
    }
    const watchdog = new Watchdog(this.engine, claim, grant, terms, now)
    const hold = new Hold(this, watchdog, token, terms, now)
    this.#holds.add(hold)
    if (hold.mode.kind === 'exclusive') this.#writer = hold
    this.engine.events.emit('granted', { ...hold.about(), waited: 0, passed: false })
    return hold
  }

  /** A hold ended by release. True: the next local request has inherited it; else it must go back to the store. */
  passOn(hold: Hold): boolean {
    const { watchdog } = hold
    const heir = this.#heir(hold)
    const may =
      heir !== undefined &&
      !hold.revoked &&
      this.#passing.allowed(watchdog.grant) &&
      watchdog.proofAwake() === 'held'
    const token = may ? watchdog.grant.pass?.() : undefined
    if (heir !== undefined && token !== undefined) {
      this.#queue.delete(heir)
      this.#deliver(heir, watchdog, token, this.engine.clock.now(), true)
    }
    this.#forget(hold)
    return token !== undefined
  }

  /** A hold that nobody inherited has been sent back to the store. */
  sentBack(): void {
    this.#pump()
  }

  /** The driver told what stands in the way of a request. */
  blocked(request: Request, by: Blocked): void {
    request.blocked(by)
    const { driver, events } = this.engine
    const { mode, terms } = request
    events.emit('waiting', { name: this.name, driver: driver.name, mode, note: terms.note, blocked: by })
  }

  /** The writer has left, its readers stay. A driver that cannot do that keeps the exclusive hold for them. */
  async downgrade(hold: Hold): Promise<void> {
    const downgrade = hold.watchdog.grant.downgrade?.()
    if (downgrade === undefined) return
    // If the answer is lost the hold stays exclusive in the store: safe, and renewals go on.
    await downgrade.catch(() => undefined)
    hold.mode = shared
    if (this.#writer === hold) this.#writer = undefined
    this.#pump()
  }

  async close(): Promise<void> {
    for (const request of [...this.#queue]) request.patience.end('closed')
    for (const turn of [...this.#turns.keys()]) turn.owner?.patience.end('closed')
    const holds = [...this.#holds].map((hold) => hold.close())
    await within(
      this.engine,
      longestGoodbye,
      Promise.all([...holds, ...this.#turns.values()]),
      () => undefined,
    )
  }

  #forget(hold: Hold): void {
    this.#holds.delete(hold)
    if (this.#writer === hold) this.#writer = undefined
  }

  #pump(): void {
    if (this.#turn !== undefined || this.engine.closed) return
    const [head] = this.#queue
    if (head === undefined) {
      if (this.idle) this.engine.idle(this)
      return
    }
    if (this.#writer !== undefined) return
    this.#queue.delete(head)
    this.#turn = this.#begin(head, false)
  }

  #begin(request: Request, once: boolean): Turn {
    const { mode, terms } = request
    const { driver, env } = this.engine
    const claim = claimOf(this.name, env.id(), mode, terms)
    const turn = new Turn(this, claim, request, once)
    const asked = request.party?.join(claim, turn) ?? driver.acquire(claim, turn)
    const answer = asked.then(
      (grant) => this.#arrived(turn, grant),
      (error) => this.#failed(turn, error),
    )
    this.#turns.set(turn, answer)
    return turn
  }

  #answeredTurn(turn: Turn): Request | undefined {
    this.#turns.delete(turn)
    if (this.#turn === turn) this.#turn = undefined
    return turn.owner
  }

  #failed(turn: Turn, error: unknown): void {
    const owner = this.#answeredTurn(turn)
    owner?.patience.done()
    owner?.failed(error)
    this.#pump()
  }

  #arrived(turn: Turn, grant: Grant | undefined): void {
    const owner = this.#answeredTurn(turn)
    const { clock } = this.engine
    // The answer may have waited for a machine that slept.
    clock.noticeSleep()
    const now = clock.now()
    if (grant === undefined) this.#nothing(turn, owner)
    else if (owner?.patience.stillThere(now) !== true) this.#returnUnused(grant)
    else if (!usable(grant, owner.terms, now)) {
      this.#returnUnused(grant)
      // Ask again while there is time. A single attempt was not told "not free", so it must not be told so.
      turn.adopted = true
      if (turn.once) this.#tooLate(owner)
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

  /** No grant. A turn that was begun for somebody less patient goes on for its new owner. */
  #nothing(turn: Turn, owner: Request | undefined): void {
    if (owner === undefined) return
    if (turn.once) {
      owner.patience.done()
      owner.granted(undefined)
    } else if (turn.adopted && owner.patience.stillThere()) {
      const again = this.#begin(owner, false)
      if (!owner.terms.fair) this.#turn = again
    } else owner.patience.end('deadline')
  }

  #tooLate(owner: Request): void {
    owner.patience.done()
    const told = `its answer about ${quote(this.name)} took so long that hardly anything is left of ${owner.terms.ttl} ms; try again, or with a longer ttl`
    owner.failed(new BackendError(this.engine.driver.name, told))
  }

  #returnUnused(grant: Grant): void {
    this.engine.giveBack(grant.release())
  }

  #abandon(turn: Turn): void {
    const [heir] = this.#queue
    if (this.#turn === turn && heir !== undefined && mayTakeOver(heir, turn.claim)) {
      this.#queue.delete(heir)
      turn.adopt(heir)
      return
    }
    if (this.#turn === turn) this.#turn = undefined
    turn.abandon()
  }

  #deliver(request: Request, watchdog: Watchdog, token: number, now: number, passed: boolean): void {
    request.patience.done()
    const hold = new Hold(this, watchdog, token, request.terms, now)
    this.#holds.add(hold)
    if (hold.mode.kind === 'exclusive') this.#writer = hold
    const { events } = this.engine
    if (events.wants('granted'))
      events.emit('granted', { ...hold.about(), waited: now - request.asked, passed })
    request.granted(hold)
  }

  /** The head of the queue, if this very grant is what it asks for. */
  #heir(hold: Hold): Request | undefined {
    for (const request of this.#queue)
      if (request.patience.stillThere()) return mayInherit(request, hold) ? request : undefined
    return undefined
  }
}

/** False for a grant that came so late that hardly anything is left of it, or that has been revoked on the way. */
function usable(grant: Grant, { ttl, lockDelay }: Terms, now: number): boolean {
  return grant.validUntil - lockDelay - now >= Math.min(ttl / 5, 100) && grant.lost?.aborted !== true
}

/** With a lock-delay the store is asked for more time than the caller is told of: see `watchdog.ts`. */
export function claimOf(name: string, attempt: string, mode: Mode, terms: Terms): Claim {
  const { fair, ttl, lockDelay, note } = terms
  const claim = { name, attempt, mode, fair, ttl: ttlWithDelay(ttl, lockDelay) }
  if (lockDelay === 0 && note === undefined) return claim
  return { ...claim, ...(lockDelay > 0 && { lockDelay }), ...(note !== undefined && { note }) }
}
