import type { History } from '../history.js'
import { intervalsByName } from '../intervals.js'
import { ms, type Violation, violation } from '../violation.js'

/** No two exclusive claims of a name overlap. One sweep over the claims, ordered by start. */
export function exclusion(history: History): Violation[] {
  const found: Violation[] = []
  for (const [name, claims] of intervalsByName(history)) {
    let furthest: (typeof claims)[number] | undefined
    for (const claim of claims) {
      if (claim.mode !== 'exclusive') continue
      if (furthest !== undefined && furthest.to > claim.from) {
        const lasted = Math.min(furthest.to, claim.to, history.end) - claim.from
        const message = `${JSON.stringify(name)} was held twice at once for ${ms(lasted)}${formatTokens(furthest.of.token, claim.of.token)}`
        const parties = [furthest.of, claim.of]
        found.push(violation(history, { rule: 'exclusion', name, message, at: claim.from, lasted, parties }))
      }
      if (furthest === undefined || claim.to > furthest.to) furthest = claim
    }
  }
  return found
}

/** Locks from other libraries have none. */
function formatTokens(one: number | undefined, other: number | undefined): string {
  return one === undefined && other === undefined ? '' : `: tokens ${one ?? 'none'} and ${other ?? 'none'}`
}
