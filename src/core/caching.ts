/**
 * Lock caching (`linger`): after a release the grant stays in its process for a moment, and the next local acquire
 * costs no request. This is the local hand-over of `local-handoff.ts` with nobody to inherit yet.
 *
 * ```
 *          release, nobody waits            acquire here: next token of the reserve
 *   HELD ───────────────────────► CACHED ──────────────────────────────────────────► HELD
 *                                   │ somebody waits · `linger` over · doubt · loss · reconnect · another note or ttl ·
 *                                   └─ fair · forced release · close · 1,000 others cached more recently ─────► store
 * ```
 * The store must know of it, because an attempt elsewhere must not be told "not free" by a cache: the last character
 * of the attempt id is no hexadecimal digit then. So every store keeps and shows the flag without a change, and a
 * single attempt that such a hold has refused stands in line for a moment, as a waiter, for which the holder gives way.
 */

/** Names whose grants one `createLocks` keeps at a time. */
const maxCached = 1_000
/** A single attempt stands in line for at least so many ms. */
export const minPatience = 10

const flag = 'z'

/** The id of an attempt whose grant may be cached after its release. */
export function cacheable(id: string): string {
  return id.slice(0, -1) + flag
}

/** May the hold of this attempt be cached, that is: free to whoever asks its process for it? */
export function mayBeCached(attempt: string): boolean {
  return attempt.endsWith(flag)
}

/**
 * How long a single attempt stands in line, in ms, but never for longer than a tenth of its ttl if that is more than
 * the least. To a holder as far from the store, giving way takes three round trips: the queue entry and the
 * notification of it, the release and the notification of that, the request that takes the lock. One more is to spare.
 */
export function patience(roundTrip: number, ttl: number): number {
  return Math.max(minPatience, Math.min(4 * roundTrip, ttl / 10))
}

interface Caching {
  endCaching(): void
}

/** The local queues of one `createLocks` that keep a grant, the oldest first. */
export class CachedNames {
  readonly #queues = new Set<Caching>()

  add(queue: Caching): void {
    this.#queues.add(queue)
    const [oldest] = this.#queues
    if (this.#queues.size > maxCached) oldest?.endCaching()
  }

  delete(queue: Caching): void {
    this.#queues.delete(queue)
  }
}
