import { type Acquisition, acquisitionsByName, type History } from '../history.js'
import { type Violation, violation } from '../violation.js'

/**
 * Tokens of a name grow in real-time order (if one acquisition returned before another was called, its token is smaller), never repeat, are
 * safe integers, and do not change within an acquisition, so that the guard saw the granted token.
 */
export function tokens(history: History): Violation[] {
  const found: Violation[] = []
  const report = (at: number, message: string, parties: readonly Acquisition[]) => {
    const name = parties[0]?.name ?? ''
    found.push(
      violation(history, {
        rule: 'tokens',
        name,
        message: `${JSON.stringify(name)}: ${message}`,
        at,
        parties,
      }),
    )
  }
  for (const all of acquisitionsByName(history).values()) {
    const fenced = all.filter((one) => one.granted !== undefined && one.token !== undefined)
    inOrder(fenced, report)
    distinct(fenced, report)
    for (const one of fenced) constant(one, report)
  }
  return found
}

type Report = (at: number, message: string, parties: readonly Acquisition[]) => void

const granted = (one: Acquisition) => one.granted ?? 0
const token = (one: Acquisition) => one.token ?? 0

/** `group` is ordered by call; a second pointer walks it in order of return. */
function inOrder(group: readonly Acquisition[], report: Report): void {
  const returns = [...group].sort((a, b) => granted(a) - granted(b))
  let next = 0
  let greatest: Acquisition | undefined
  for (const one of group) {
    for (
      let other = returns[next];
      other !== undefined && granted(other) < one.invoked;
      other = returns[++next]
    ) {
      if (greatest === undefined || token(other) > token(greatest)) greatest = other
    }
    if (greatest === undefined || token(one) > token(greatest)) continue
    // Equal tokens are reported as repeated.
    if (token(one) === token(greatest)) continue
    report(granted(one), `token ${token(one)} came after ${token(greatest)} had been given`, [greatest, one])
  }
}

function distinct(group: readonly Acquisition[], report: Report): void {
  const seen = new Map<number, Acquisition>()
  for (const one of group) {
    const first = seen.get(token(one))
    if (first === undefined) seen.set(token(one), one)
    else report(Math.max(granted(first), granted(one)), `token ${token(one)} was given twice`, [first, one])
  }
}

function constant(one: Acquisition, report: Report): void {
  if (!Number.isSafeInteger(one.token)) report(granted(one), `token ${one.token} is no safe integer`, [one])
  const other = one.events.find((event) => event.token !== undefined && event.token !== one.token)
  if (other === undefined) return
  report(other.t, `token ${one.token} had become ${other.token} at the ${other.op} of the same acquisition`, [
    one,
  ])
}
