/**
 * Which request may have the grant, or the queue entry in the store, of which other one inside one process.
 *
 * An exclusive grant may go to the next local request without a request to the store, with the next token of its
 * reserve. How often is in `handoff-limit.ts`.
 */
import { ttlWithDelay } from './clock.js'
import type { Claim } from './driver.js'
import type { Mode } from './mode.js'
import type { Terms } from './options.js'

/**
 * The share of its ttl that a lease must have left to be handed over. With the watchdog's renewals it has that much,
 * unless the event loop was blocked or the store is slow. A lease with less goes back to the store, and the next
 * grant comes with the full ttl.
 */
export const minTtlShare = 0.6

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
