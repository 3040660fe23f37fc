/** Who holds permits of a pool: the pool's cell says who and how many, the store's locks since when. */
import type { Holder } from '../core/driver.js'
import type { Deadline } from '../core/with-deadline.js'
import type { PoolCell } from './pool-cell.js'
import { parsePool } from './pool-state.js'

/** A holder of permits. */
export interface PermitHolder {
  readonly permits: number
  readonly token: number
  /** Milliseconds since it joined the queue, by the store's clock. */
  readonly since: number
  readonly note?: string
  readonly client?: string
}

/** How often it reads at most, while others come and go. */
const maxReads = 5

export async function readHolders(
  { cellRef, membership }: PoolCell,
  bounds: Deadline,
): Promise<readonly PermitHolder[]> {
  let cell = await cellRef.read(bounds)
  let holders: readonly Holder[] = []
  for (let tries = 0; tries < maxReads; tries++) {
    holders = (await cellRef.retrying(bounds, () => cellRef.engine.driver.inspect(membership.lock.name)))
      .holders
    // Permits released in between may have been granted to others, who would be missing.
    const now = await cellRef.read(bounds)
    if (now?.version === cell?.version) break
    cell = now
  }
  const entries = new Map(parsePool(cell)?.line.map((entry) => [entry.attempt, entry]))
  return holders
    .filter(({ attempt, expiresIn }) => entries.get(attempt)?.in === true && expiresIn > 0)
    .sort((a, b) => a.token - b.token)
    .map(({ attempt, token, heldFor, note, client }) => ({
      permits: entries.get(attempt)?.take ?? 1,
      token,
      since: heldFor,
      ...(note !== undefined && { note }),
      ...(client !== undefined && { client }),
    }))
}
