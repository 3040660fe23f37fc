/**
 * Passes on the released grant of one local queue: to the next request in the queue, or, with `linger`, to one that
 * has not come yet. Whatever cannot be passed on goes back to the store.
 *
 * ```
 *   released ──┬─ nobody waits ──────── `linger`: cached ──────── a request comes ──────┐
 *              │                                                                        ▼
 *              └─ the next one waits ─┬─ a token of the reserve, at once or after ──► handed over
 *                                     │  a turn of the event loop                       ▲
 *                                     └─ the store mints a token ───────────────────────┘
 * ```
 * Whose request may have it is in `handoff-rules.ts`, how often in `handoff-limit.ts`, and why grants are cached in
 * `caching.ts`.
 */
import type { Grant } from './driver.js'
import { canReuse, GrantCache, isFit, mayKeep } from './grant-cache.js'
import { HandoffLimit } from './handoff-limit.js'
import { canReceive, minTtlShare } from './handoff-rules.js'
import type { Hold } from './hold.js'
import type { LocalQueue } from './local-queue.js'
import type { QueueEntry } from './queue-entry.js'
import * as rules from './queue-state.js'
import { withTimeout } from './with-timeout.js'

export class LocalHandoff {
  readonly #queue: LocalQueue
  readonly #limit: HandoffLimit
  /** Ends the wait for the next token of the hold that is held back. */
  #stopMinting: (() => void) | undefined

  constructor(queue: LocalQueue) {
    this.#queue = queue
    this.#limit = new HandoffLimit(queue.engine.clock)
  }

  /** A new grant came from the store. */
  begin(): void {
    this.#limit.begin()
  }

  /**
   * A hold ended by release. True: a local request has inherited it, or is about to; else the grant must go back to the store.
   * Listeners learn of the release before they learn of the next grant, as they do where the store hands the lock over.
   */
  handOff(hold: Hold): boolean {
    const { grant } = hold.watchdog
    if (this.#nextEntry(hold) === undefined) return this.#keep(hold)
    if (grant.nextReservedToken === undefined && grant.nextToken !== undefined)
      return this.#mintAndHandOver(hold, grant)
    if (!this.#limit.mustYield) return this.#handOverNow(hold)
    rules.holdBack(this.#queue.state, hold)
    this.#queue.engine.clock.soon(() => this.#afterYield(hold))
    hold.onHandedOff()
    return true
  }

  /** Nobody here asks for this grant. */
  #keep(hold: Hold): boolean {
    const { engine, state } = this.#queue
    // Nobody waits here or, as far as reported, elsewhere.
    const idle = !engine.closed && state.queue.size === 0 && state.asking.size === 0
    if (!idle || !mayKeep(hold)) {
      rules.removeHold(state, hold)
      return false
    }
    rules.holdBack(state, hold)
    this.#queue.cache ??= new GrantCache(this.#queue)
    this.#queue.cache.keep(hold)
    hold.onHandedOff()
    return true
  }

  /** The store mints the next token. Nobody here holds the lock meanwhile, and it stays taken for others. */
  #mintAndHandOver(hold: Hold, grant: Grant): boolean {
    const { engine, state } = this.#queue
    const { watchdog } = hold
    const token = this.#canHandOver(hold) ? grant.nextToken?.() : undefined
    if (token === undefined) {
      rules.removeHold(state, hold)
      return false
    }
    rules.holdBack(state, hold)
    // Later than that, too little is left for the next holder.
    const timeout = watchdog.remaining - minTtlShare * watchdog.maxLeaseTtl
    const stopped = new Promise<undefined>((resolve) => {
      this.#stopMinting = () => resolve(undefined)
    })
    void withTimeout(engine, timeout, Promise.race([token, stopped]), (token) => this.#minted(hold, token))
    hold.onHandedOff()
    return true
  }

  /** @param token undefined: the grant is over, the store refused, or it took too long */
  #minted(hold: Hold, token: number | undefined): void {
    const { state } = this.#queue
    if (state.heldBack !== hold) return
    const next = this.#nextEntry(hold)
    if (token === undefined || next === undefined || !isFit(hold.watchdog)) {
      rules.removeHold(state, hold)
      void hold.watchdog.release()
    } else this.#handOver(hold, next, token, false)
    this.#queue.pump()
  }

  /** The event loop has turned. The next request may have been cancelled by now, and waiters in the store may have been reported. */
  #afterYield(hold: Hold): void {
    if (this.#queue.state.heldBack !== hold) return
    if (!this.#handOverNow(hold, false)) void hold.watchdog.release()
    this.#queue.pump()
  }

  /** False: the grant must go back to the store. */
  #handOverNow(hold: Hold, reports = true): boolean {
    const next = this.#nextEntry(hold)
    const token = next && this.#canHandOver(hold) ? hold.watchdog.grant.nextReservedToken?.() : undefined
    if (next === undefined || token === undefined) {
      rules.removeHold(this.#queue.state, hold)
      return false
    }
    this.#handOver(hold, next, token, reports)
    return true
  }

  #canHandOver({ watchdog }: Hold): boolean {
    return this.#limit.tryHandoff(watchdog.grant) && isFit(watchdog)
  }

  /** @param reports the release has not been reported yet */
  #handOver(hold: Hold, next: QueueEntry, token: number, reports: boolean): void {
    const queue = this.#queue
    rules.handedOver(queue.state, hold, next)
    queue.deliver(next, hold.watchdog, token, queue.engine.clock.now(), true, reports ? hold : undefined)
  }

  /** The first who still waits, if this very grant is what it asks for. */
  #nextEntry(hold: Hold): QueueEntry | undefined {
    const { state } = this.#queue
    for (const { deadline } of state.queue) if (deadline.isStillWaiting()) break
    return rules.findSuccessor(state, hold)
  }

  /** A request arrives while a grant is cached. True: it has that grant, or its wait has ended; else it is still to be queued. */
  reuse(entry: QueueEntry, once: boolean, cache: GrantCache, hold: Hold): boolean {
    const { watchdog } = hold
    const fits = !cache.isOver && !entry.terms.fair && entry.batch === undefined && canReceive(entry, hold)
    // A loop of single attempts gets its turn of the event loop from the store.
    const mustYield = fits && this.#limit.mustYield
    if (!fits || !canReuse(watchdog) || (mustYield && once)) {
      cache.end()
      return false
    }
    if (mustYield) {
      // It joins the queue meanwhile.
      cache.take()
      this.#queue.engine.clock.soon(() => this.#afterYield(hold))
      return false
    }
    // The caller's wait has ended, and it has been notified.
    if (!entry.deadline.isStillWaiting()) return true
    const token = watchdog.grant.nextReservedToken?.()
    if (token === undefined) {
      cache.end()
      return false
    }
    cache.take()
    this.#handOver(hold, entry, token, false)
    return true
  }

  /** The grant was lost after its release, while it is to be handed over: the requests behind it do not wait for the token. */
  abandon(hold: Hold): void {
    const { state, cache } = this.#queue
    if (state.heldBack !== hold) return
    this.#stopMinting?.()
    if (cache?.hold !== hold) return
    cache.take()
    rules.removeHold(state, hold)
    this.#queue.pump()
  }

  /** The locks are being closed. */
  close(): void {
    const { state, cache } = this.#queue
    const { heldBack } = state
    cache?.take()
    if (heldBack !== undefined) rules.removeHold(state, heldBack)
    this.#stopMinting?.()
    if (heldBack !== undefined) void heldBack.watchdog.release()
  }
}
