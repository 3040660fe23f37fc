/**
 * Lock caching (`linger`): after a release the grant stays in its process for a moment, and the next local acquire
 * costs no request. This is the local hand-over of `handoff-rules.ts` to a request that has not come yet.
 *
 * ```
 *          release, nobody waits            acquire here: next token of the reserve
 *   HELD ───────────────────────► CACHED ──────────────────────────────────────────► HELD
 *                                   │ somebody waits · `linger` over · doubt · loss · reconnect · another note or ttl ·
 *                                   └─ fair · forced release · close · 1,000 others cached more recently ─────► store
 * ```
 * A cache must not refuse an attempt in another process, so the store must be able to tell: the attempt id of such a
 * hold ends with a character that is no hexadecimal digit, which every store keeps and reports as it is. A single
 * attempt that such a hold refuses waits in the queue for a moment, and the holder releases the lock for it.
 */

/** A grant that is kept after its release. */
export interface Cached {
  /** It goes back to the store. */
  end(): void
}

/** Names whose grants one `createLocks` keeps at a time. */
const maxCached = 1_000
/** The least time for which a single attempt waits in the queue, in ms. */
export const minPatience = 10

const flag = 'z'

/** The id of an attempt whose grant may be cached after its release. */
export function cacheable(id: string): string {
  return id.slice(0, -1) + flag
}

/** Can the hold of this attempt be cached? Then its process releases it as soon as another client waits. */
export function mayBeCached(attempt: string): boolean {
  return attempt.endsWith(flag)
}

/**
 * How long a single attempt waits in the queue, in ms: four round trips, at least `minPatience`, at most a tenth of its
 * ttl. A holder equally far from the store needs three to give way: the queue entry and its notification, the release
 * and its notification, the request that takes the lock. The fourth is a reserve.
 */
export function patience(roundTrip: number, ttl: number): number {
  return Math.max(minPatience, Math.min(4 * roundTrip, ttl / 10))
}

/** The grants that one `createLocks` keeps, the oldest first. */
export class CachedGrants {
  readonly #grants = new Set<Cached>()

  add(grant: Cached): void {
    this.#grants.add(grant)
    const [oldest] = this.#grants
    if (this.#grants.size > maxCached) oldest?.end()
  }

  delete(grant: Cached): void {
    this.#grants.delete(grant)
  }
}
