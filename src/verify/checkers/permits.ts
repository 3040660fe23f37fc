import type { History } from '../history.js'
import { type HoldInterval, intervalsByName } from '../intervals.js'
import { type Violation, violation } from '../violation.js'

/**
 * At no instant do the claims of a semaphore take more permits than exist, nor is another mode held beside them. A sweep over starts and
 * ends of claims; a claim that ends at an instant makes room for one that starts at it.
 */
export function permits(history: History): Violation[] {
  const found: Violation[] = []
  for (const [name, claims] of intervalsByName(history)) {
    if (claims.some((claim) => claim.mode === 'permits')) sweep(history, name, claims, found)
  }
  return found
}

function sweep(history: History, name: string, claims: readonly HoldInterval[], found: Violation[]): void {
  const ends = [...claims].sort((a, b) => a.to - b.to)
  const held = new Set<HoldInterval>()
  let taken = 0
  let others = 0
  let next = 0
  const count = (claim: HoldInterval, sign: 1 | -1) => {
    if (claim.mode === 'permits') taken += sign * claim.of.permits
    else others += sign
  }
  for (const claim of claims) {
    for (let end = ends[next]; end !== undefined && end.to <= claim.from; end = ends[++next]) {
      held.delete(end)
      count(end, -1)
    }
    held.add(claim)
    count(claim, 1)
    const limit = claim.of.of
    const mixed = taken > 0 && others > 0
    if (!mixed && (claim.mode !== 'permits' || taken <= limit)) continue
    const message = mixed
      ? `${JSON.stringify(name)}: ${taken} permits and ${others} holds of another mode at once`
      : `${JSON.stringify(name)}: ${taken} permits of ${limit} taken at once by ${held.size} holders`
    const parties = [...held].map((claim) => claim.of)
    const lasted = Math.min(ends[next]?.to ?? history.end, history.end) - claim.from
    found.push(violation(history, { rule: 'permits', name, message, at: claim.from, lasted, parties }))
  }
}
