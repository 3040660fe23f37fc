/**
 * Who may follow whom inside one process, and for how long.
 *
 * An exclusive grant may go to the next local request without asking the store, with the next token of its reserve. While
 * others stand in the store's line that is bounded, so that a busy process cannot keep them out; then the grant goes back.
 */
import { type Clock, ttlWithDelay } from './clock.js'
import type { Claim, Grant } from './driver.js'
import type { Hold } from './hold.js'
import type { Request } from './queue.js'

/** Passes of one grant while others wait in the store. */
export const passesWhileContended = 16
/** Milliseconds of passing on while others wait in the store. */
export const passingTimeWhileContended = 50

/** Counts for one grant, from the moment it is known that others wait. */
export class Passing {
  readonly #clock: Clock
  #passes = 0
  #contendedSince: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A new grant came from the store. */
  begin(): void {
    this.#passes = 0
    this.#contendedSince = undefined
  }

  /** May this grant be passed on once more? Counts the pass. */
  allowed(grant: Grant): boolean {
    if (grant.contended?.() === false) {
      this.begin()
      return true
    }
    const now = this.#clock.now()
    this.#contendedSince ??= now
    this.#passes++
    return this.#passes <= passesWhileContended && now - this.#contendedSince <= passingTimeWhileContended
  }
}

/** May this request have a grant that was asked for with these terms, without asking the store? */
export function mayInherit({ mode, terms }: Request, { mode: held, watchdog }: Hold): boolean {
  const exclusive = held.kind === 'exclusive' && mode.kind === 'exclusive'
  return (
    exclusive &&
    terms.ttl === watchdog.ttl &&
    terms.lockDelay === watchdog.lockDelay &&
    terms.autoRenew &&
    watchdog.autoRenew
  )
}

/**
 * May this request take over a place in the store's line that was taken with `claim`? Only for a hold that excludes all others: of
 * those that stand beside each other one may have been granted already, its answer on the way, and another since, so that who
 * came last would have the older token.
 */
export function mayTakeOver({ mode, terms }: Request, claim: Claim): boolean {
  if (claim.mode.kind !== 'exclusive') return false
  const { lockDelay = 0 } = claim
  const sameTime = terms.lockDelay === lockDelay && ttlWithDelay(terms.ttl, lockDelay) === claim.ttl
  return mode.kind === 'exclusive' && sameTime && terms.note === claim.note
}
