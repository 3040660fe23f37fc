import type { History } from '../history.js'
import { type HoldInterval, intervalsByName } from '../intervals.js'
import { ms, type Violation, violation } from '../violation.js'

/** No shared claim overlaps an exclusive one. `exclusion` checks pairs of exclusive claims; shared claims may overlap. */
export function readWrite(history: History): Violation[] {
  const found: Violation[] = []
  for (const [name, claims] of intervalsByName(history)) {
    let reader: HoldInterval | undefined
    let writer: HoldInterval | undefined
    for (const claim of claims) {
      if (claim.mode === 'permits') continue
      const other = claim.mode === 'shared' ? writer : reader
      if (other !== undefined && other.to > claim.from && other.of !== claim.of) {
        const lasted = Math.min(other.to, claim.to, history.end) - claim.from
        const message = `${JSON.stringify(name)} was read and written at once for ${ms(lasted)}: tokens ${other.of.token} and ${claim.of.token}`
        const parties = [other.of, claim.of]
        found.push(violation(history, { rule: 'read-write', name, message, at: claim.from, lasted, parties }))
      }
      if (claim.mode === 'shared') reader = later(reader, claim)
      else writer = later(writer, claim)
    }
  }
  return found
}

const later = (a: HoldInterval | undefined, b: HoldInterval) => (a === undefined || b.to > a.to ? b : a)
