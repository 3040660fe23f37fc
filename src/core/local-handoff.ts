/**
 * Which request may follow which hold inside one process, and for how long.
 *
 * An exclusive grant may go to the next local request without a request to the store, with the next token of its
 * reserve. While others wait in the store's queue such hand-overs are bounded, so that a busy process cannot keep
 * them out; then the grant goes back.
 */
import { type Clock, ttlWithDelay } from './clock.js'
import type { Claim, Grant } from './driver.js'
import type { Mode } from './mode.js'
import type { Terms } from './options.js'

/** Hand-overs of one grant while others wait in the store. */
export const maxContendedHandoffs = 16
/** Milliseconds of hand-overs while others wait in the store. */
export const maxContendedHandoffTime = 50

/**
 * Milliseconds of hand-overs without a turn of the event loop: sections without I/O would otherwise hold back timers
 * and the notification that another process waits.
 */
export const maxSynchronousTime = 5

/**
 * The share of its ttl that a lease must have left to be handed over. With the watchdog's renewals it has that much,
 * unless the event loop was blocked or the store is slow. A lease with less goes back to the store, and the next
 * grant comes with the full ttl.
 */
export const minTtlShare = 0.6

/** Counts the hand-overs of one grant from the moment that others are known to wait. */
export class HandoffLimit {
  readonly #clock: Clock
  #handoffs = 0
  #contendedSince: number | undefined
  /** Clock reading of the first hand-over since the event loop turned. */
  #sliceStartedAt: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A new grant came from the store. */
  begin(): void {
    this.#handoffs = 0
    this.#contendedSince = undefined
  }

  /** Must the event loop turn before the next hand-over? */
  get mustYield(): boolean {
    const now = this.#clock.now()
    if (this.#sliceStartedAt === undefined) {
      this.#sliceStartedAt = now
      this.#clock.soon(() => {
        this.#sliceStartedAt = undefined
      })
    }
    return now - this.#sliceStartedAt >= maxSynchronousTime
  }

  /** May this grant be handed over once more? Counts the hand-over. */
  tryHandoff(grant: Grant): boolean {
    if (grant.contended?.() === false) {
      this.begin()
      return true
    }
    const now = this.#clock.now()
    this.#contendedSince ??= now
    this.#handoffs++
    return this.#handoffs <= maxContendedHandoffs && now - this.#contendedSince <= maxContendedHandoffTime
  }
}

/** What a hold must show for its grant to be handed over. */
export interface Handable {
  readonly mode: Mode
  /** Stored with the grant, and shown to others until it is released. */
  readonly note: string | undefined
  /** Its holder was asked to give way: it is not handed over inside the process. */
  readonly revoked: boolean
  readonly watchdog: Pick<Terms, 'ttl' | 'lockDelay' | 'autoRenew'> & { readonly extending: boolean }
}

/** What a waiter asks for. */
export interface Wanted {
  readonly mode: Mode
  readonly terms: Pick<Terms, 'ttl' | 'lockDelay' | 'autoRenew' | 'note'>
}

/** May this request have the grant of this hold, which was requested with these terms, without a request to the store? */
export function canReceive({ mode, terms }: Wanted, { mode: held, note, watchdog }: Handable): boolean {
  const exclusive = held.kind === 'exclusive' && mode.kind === 'exclusive'
  return (
    exclusive &&
    terms.note === note &&
    terms.ttl === watchdog.ttl &&
    terms.lockDelay === watchdog.lockDelay &&
    terms.autoRenew &&
    watchdog.autoRenew &&
    !watchdog.extending
  )
}

/**
 * May this request take over a queue entry in the store that was made with `claim`? Exclusive mode only: of entries
 * that can hold side by side, one may already have been granted (reply in flight) and another since, so that the
 * latecomer would have the older token.
 */
export function canTakeOver(
  { mode, terms }: Wanted,
  claim: Pick<Claim, 'mode' | 'ttl' | 'lockDelay' | 'note'>,
): boolean {
  if (claim.mode.kind !== 'exclusive') return false
  const { lockDelay = 0 } = claim
  const sameTime = terms.lockDelay === lockDelay && ttlWithDelay(terms.ttl, lockDelay) === claim.ttl
  return mode.kind === 'exclusive' && sameTime && terms.note === claim.note
}
