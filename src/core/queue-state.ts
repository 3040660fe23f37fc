/**
 * The queue of one process for one name, as plain data and its transitions: no clock, no I/O, no listeners.
 * `local-queue.ts` sends and holds what they decide, `store-reply.ts` reports what came of it, as `reply-outcome.ts`
 * decides, and `local-handoff.ts` passes grants on.
 * Long because all transitions are read together.
 *
 * ```
 *   enqueue ──► queue ──► turn ──► asking ──► arrived ──► holds ──► released ──┐
 *                 ▲         (one at a time)                 ▲                  │
 *                 │                                         └── handedOver ◄───┤ if the head may have the grant
 *                 └────────────────── pump ◄────────────────────────────────── ┘ else it goes back to the store
 * ```
 * A thousand requests in one process cost the store one waiter: only the head of the queue has the *turn* and waits
 * in the store's queue. When the head gives up, the next compatible request takes over its turn, and with it its
 * queue entry. While an exclusive hold is alive in this process no request takes the turn: the hold will be handed
 * over locally, or released first. `fair` requests and single attempts have their own turns, beside the queue. So do
 * readers and takers of permits while one of their kind holds in this process and none of them is blocked.
 *
 * A transition leaves the state complete before anybody is notified, so listeners may call in at any action. One action
 * is decided at a time, because the caller notified of it may change what comes next.
 */
import type { Claim } from './driver.js'
import { canReceive, canTakeOver, type Handable } from './handoff-rules.js'
import type { Mode } from './mode.js'
import type { Terms } from './options.js'
import { SmallSet } from './small-set.js'

/** A caller that waits. */
export interface Entry {
  readonly mode: Mode
  readonly terms: Pick<Terms, 'fair' | 'ttl' | 'lockDelay' | 'autoRenew' | 'note'>
  /** The batch in which its claim goes to the store. */
  readonly batch?: { readonly waits: boolean } | undefined
}

/** A claim that the store has not answered yet. */
export interface Request<E> {
  readonly claim: Pick<Claim, 'mode' | 'ttl' | 'lockDelay' | 'note'>
  /** A single attempt. */
  readonly once: boolean
  /** Undefined once no caller wants the grant: one that still arrives is released. */
  owner: E | undefined
  /** It was taken over, or begun again: the reply "not granted" does not end the wait of its present owner. */
  reassigned: boolean
  /** The store has reported what blocks it. */
  reported: boolean
}

export interface QueueState<E, R, H> {
  /** They wait for the turn, in order of arrival. */
  readonly queue: SmallSet<E>
  readonly asking: SmallSet<R>
  /** The request of the queue, one of `asking`. */
  turn: R | undefined
  readonly holds: SmallSet<H>
  /** The exclusive one among the holds. */
  writer: H | undefined
  /** Released by its holder and not handed over yet: the event loop turns first, or the store mints a token. */
  heldBack: H | undefined
}

/** Send the claim of `entry`. Before anything else happens, the request made for it is `asked`. */
export interface Ask<E> {
  readonly entry: E
  readonly once: boolean
  /** It takes the queue's turn. */
  readonly turn: boolean
}

/** Requests of one name on their way to the store at once, among those that can hold side by side. */
export const maxConcurrentRequests = 64

export function emptyQueue<E, R, H>(): QueueState<E, R, H> {
  return {
    queue: new SmallSet(),
    asking: new SmallSet(),
    turn: undefined,
    holds: new SmallSet(),
    writer: undefined,
    heldBack: undefined,
  }
}

/** Nobody in this process holds or waits. */
export function isEmpty({ queue, asking, holds, heldBack }: QueueState<unknown, unknown, unknown>): boolean {
  return queue.size === 0 && holds.size === 0 && asking.size === 0 && heldBack === undefined
}

/** An exclusive hold is alive in this process. */
export function isTaken({ writer, heldBack }: QueueState<unknown, unknown, unknown>): boolean {
  return writer !== undefined || heldBack !== undefined
}

/**
 * Do `most` or more of this process wait, in the queue or for the store's reply? Single attempts do not wait, unless
 * a wait for several locks begins with one.
 */
export function isFull<E extends Entry>(
  { queue, asking }: QueueState<E, Request<E>, unknown>,
  most: number,
): boolean {
  let count = queue.size
  if (count >= most) return true
  if (most === Number.POSITIVE_INFINITY) return false
  for (const { owner, once } of asking) {
    if (owner !== undefined && (!once || owner.batch?.waits === true)) count++
    if (count >= most) return true
  }
  return false
}

/**
 * A call arrives. It is sent to the store, waits in the queue, or is refused: a single attempt (`once`) never waits
 * behind others.
 */
export function enqueue<E extends Entry, R extends Request<E>>(
  state: QueueState<E, R, unknown>,
  entry: E,
  once: boolean,
): Ask<E> | 'queued' | 'refused' {
  if (once) return isBusyFor(state, entry.mode) ? 'refused' : { entry, once, turn: false }
  if (entry.terms.fair) return { entry, once, turn: false }
  if (state.queue.size === 0 && state.turn === undefined && !isTaken(state))
    return { entry, once, turn: true }
  state.queue.add(entry)
  return 'queued'
}

/** Local readers do not block a reader, nor do permits block permits: only the store knows whether they fit. */
function isBusyFor<E extends Entry>(state: QueueState<E, Request<E>, unknown>, { kind }: Mode): boolean {
  const { queue, turn } = state
  if (isTaken(state)) return true
  if (turn === undefined) return queue.size > 0
  if (kind === 'exclusive' || turn.claim.mode.kind !== kind) return true
  for (const { mode } of queue) if (mode.kind !== kind) return true
  return false
}

/** The request for this `Ask` exists, and is not sent yet. */
export function asked<E, R extends Request<E>>(
  state: QueueState<E, R, unknown>,
  request: R,
  { turn }: Ask<E>,
): void {
  state.asking.add(request)
  if (turn) state.turn = request
}

/** The next waiter to send to the store, taken out of the queue. Undefined: nothing to do now. */
export function pump<E extends Entry, R extends Request<E>, H extends { readonly mode: Mode }>(
  state: QueueState<E, R, H>,
): Ask<E> | undefined {
  if (state.turn !== undefined) return undefined
  const beside = pumpConcurrent(state)
  if (beside !== undefined) return beside
  const head = state.queue.first
  if (head === undefined || isTaken(state)) return undefined
  state.queue.delete(head)
  return { entry: head, once: false, turn: true }
}

/**
 * The same, only beside the others. Readers, and takers of permits, do not wait for each other's replies: while one of
 * their kind holds in this process and none of them is blocked, the others send their own requests.
 */
export function pumpConcurrent<E extends Entry, R extends Request<E>, H extends { readonly mode: Mode }>(
  state: QueueState<E, R, H>,
): Ask<E> | undefined {
  const head = state.queue.first
  if (head === undefined || !hasRoomFor(state, head.mode)) return undefined
  state.queue.delete(head)
  return { entry: head, once: false, turn: false }
}

function hasRoomFor<E, R extends Request<E>, H extends { readonly mode: Mode }>(
  state: QueueState<E, R, H>,
  mode: Mode,
): boolean {
  const { holds, asking } = state
  const hold = holds.first
  if (mode.kind === 'exclusive' || isTaken(state) || hold?.mode.kind !== mode.kind) return false
  if (asking.size >= maxConcurrentRequests) return false
  for (const request of asking) if (request.reported || request.claim.mode.kind !== mode.kind) return false
  if (mode.kind !== 'permits') return true
  let left = mode.of - mode.take
  for (const { mode: held } of holds) if (held.kind === 'permits') left -= held.take
  for (const { claim } of asking) if (claim.mode.kind === 'permits') left -= claim.mode.take
  return left >= 0
}

/**
 * The caller has gone. Returns the request that it leaves behind, if it has one: with another owner, which waited next
 * and can have the same grant, or without one, to be abandoned.
 */
export function cancel<E extends Entry, R extends Request<E>>(
  state: QueueState<E, R, unknown>,
  entry: E,
): R | undefined {
  if (state.queue.delete(entry)) return undefined
  for (const request of state.asking) {
    if (request.owner !== entry) continue
    const next = state.queue.first
    const isTurn = state.turn === request
    request.owner = undefined
    if (isTurn && next !== undefined && canTakeOver(next, request.claim)) {
      state.queue.delete(next)
      request.owner = next
      request.reassigned = true
    } else if (isTurn) state.turn = undefined
    return request
  }
  return undefined
}

/** The store has answered. Returns the owner as it was: the request, which a driver may keep, must not keep its caller. */
export function arrived<E, R extends Request<E>>(
  state: QueueState<E, R, unknown>,
  request: R,
): E | undefined {
  state.asking.delete(request)
  if (state.turn === request) state.turn = undefined
  const { owner } = request
  request.owner = undefined
  return owner
}

/** How to send an entry that still waits to the store once more. */
export function askAgain<E extends Entry>(state: QueueState<E, unknown, unknown>, entry: E): Ask<E> {
  return { entry, once: false, turn: !entry.terms.fair && state.turn === undefined }
}

/** `hold` has its grant from the store, from another process, or from its predecessor here. */
export function held<H extends { readonly mode: Mode }>(
  state: QueueState<unknown, unknown, H>,
  hold: H,
): void {
  state.holds.add(hold)
  if (hold.mode.kind === 'exclusive') state.writer = hold
}

/** The hold is over here: released, lost, or exported to another process. */
export function removeHold<H>(state: QueueState<unknown, unknown, H>, hold: H): void {
  state.holds.delete(hold)
  if (state.writer === hold) state.writer = undefined
  if (state.heldBack === hold) state.heldBack = undefined
}

/** The head of the queue, if this very grant is what it asks for. */
export function findSuccessor<E extends Entry, H extends Handable>(
  { queue }: QueueState<E, unknown, H>,
  hold: H,
): E | undefined {
  const head = queue.first
  return head !== undefined && !hold.revoked && canReceive(head, hold) ? head : undefined
}

/** Released, but it stays taken for others until it is handed over or forgotten. */
export function holdBack<H>(state: QueueState<unknown, unknown, H>, hold: H): void {
  removeHold(state, hold)
  state.heldBack = hold
}

/** The grant of `hold` goes to `next`, whose own hold is `held` before anything else happens. */
export function handedOver<E, H>(state: QueueState<E, unknown, H>, hold: H, next: E): void {
  removeHold(state, hold)
  state.queue.delete(next)
}

/** The writer has become a reader, in the store as well. */
export function downgraded<H>(state: QueueState<unknown, unknown, H>, hold: H): void {
  if (state.writer === hold) state.writer = undefined
}

const none: readonly never[] = []

/** The holds, also one that is being handed over, beside which the store grants nothing of `mode`. */
export function excludedBy<H extends { readonly mode: Mode }>(
  { holds, heldBack }: QueueState<unknown, unknown, H>,
  mode: Mode,
): readonly H[] {
  if (holds.size === 0 && heldBack === undefined) return none
  const all = heldBack === undefined ? [...holds] : [...holds, heldBack]
  return all.filter((hold) => mode.kind === 'exclusive' || hold.mode.kind === 'exclusive')
}
