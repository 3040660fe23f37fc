/** What the store's reply to a request means for the caller that waits for it: a pure function. `store-reply.ts` performs it. */
import type { Request } from './queue-state.js'

/** A reply and its circumstances. */
export interface Reply {
  /** Somebody wants the grant. */
  readonly owned: boolean
  /** The owner still waits: its deadline has not passed. */
  readonly waiting: boolean
  readonly granted: boolean
  /** Enough is left of the grant, and the store still keeps it. */
  readonly usable: boolean
  /** This process holds nothing newer that excludes it. */
  readonly newest: boolean
  /** A single attempt was refused by what may be nothing but a cache in another process. */
  readonly refusedByCache: boolean
}

/**
 * `ask-again`: the owner still waits, and begins anew. `ask-patiently`: a single attempt is sent once more, as a waiter.
 * `too-late`: no other client holds the lock, but the grant had nearly expired. A grant goes back to the store unless it is delivered.
 */
export type Outcome =
  | 'deliver'
  | 'refuse'
  | 'ask-again'
  | 'ask-patiently'
  | 'time-out'
  | 'too-late'
  | 'nothing'

/** What a reply means for the owner of the request. */
export function conclude(
  { once, reassigned }: Pick<Request<unknown>, 'once' | 'reassigned'>,
  { owned, waiting, granted, usable, newest, refusedByCache }: Reply,
): Outcome {
  if (!owned) return 'nothing'
  if (granted) {
    if (!waiting) return 'nothing'
    if (usable && newest) return 'deliver'
    // The store did not reply "not free" to a single attempt, so its caller gets that only if another holds here.
    if (!once) return 'ask-again'
    return newest ? 'too-late' : 'refuse'
  }
  if (once && !refusedByCache) return 'refuse'
  // The check whether it waits has ended a wait that was aborted.
  if (once) return waiting ? 'ask-patiently' : 'nothing'
  return reassigned && waiting ? 'ask-again' : 'time-out'
}
