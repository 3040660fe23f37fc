/** A finding as text, with what explains it: what everybody did with the name around the moment, and which faults lasted then. */
import { type Event, type History, printViolation, type Violation } from 'holdfast/verify'
import { type FaultSpan, faultSpans } from './fault-spans.js'

/** The events of the name that are shown around a moment: so many before it, so many from then on. */
const atTheMoment = { before: 24, after: 8 }
const atTheCall = { before: 10, after: 4 }
/** Faults that are shown, the last ones that began before the moment. */
const mostFaults = 12
/** How long before the first event that is shown a fault may have ended, in ns: its consequences last longer than itself. */
const aftermath = 2e9

/** Findings that are shown at length: the first ones explain the others. */
export const atLength = 3

/** The first findings of a run and what went wrong with it; empty if there is neither. */
export function printFindings({ history, violations, complaints }: Judged): string {
  const found = violations.slice(0, atLength).map((violation) => printFinding(history, violation))
  return [...found, ...complaints].slice(0, atLength).join('\n\n')
}

interface Judged {
  readonly history: History
  readonly violations: readonly Violation[]
  readonly complaints: readonly string[]
}

export function printFinding(history: History, violation: Violation): string {
  return [printViolation(violation), '', ...surroundings(history, violation)].join('\n')
}

/** At most 60 lines. */
function surroundings(history: History, { name, at, parties }: Violation): string[] {
  const ofName = history.events.filter((event) => event.name === name && event.op !== 'fault')
  const called = Math.min(at, ...parties.map(({ invoked }) => invoked))
  const shown = new Set([...around(ofName, called, atTheCall), ...around(ofName, at, atTheMoment)])
  const events = ofName.filter((event) => shown.has(event))
  const [from = called, to = at] = [events[0]?.t, events.at(-1)?.t]
  const seen = ({ from: begins, to: ends }: FaultSpan) => begins <= to && ends >= from - aftermath
  const faults = [...faultSpans(history), ...notes(history)].filter(seen).sort((a, b) => a.from - b.from)
  const least = Math.max(0, faults.length - mostFaults)
  return [
    `  ${JSON.stringify(name)}: ${events.length} of its ${ofName.length} events, those around the call and the moment`,
    ...events.map((event) => `  ${relative(event.t - at)}  ${describe(event, at)}`),
    `  ${faults.length - least} of the ${faults.length} faults then, or in the ${aftermath / 1e9} s before`,
    ...faults.slice(least).map((fault) => `  ${relative(fault.from - at)}  ${describeFault(fault, at)}`),
  ]
}

function around(
  events: readonly Event[],
  t: number,
  { before, after }: { readonly before: number; readonly after: number },
): readonly Event[] {
  const next = events.findIndex((event) => event.t >= t)
  const middle = next < 0 ? events.length : next
  return events.slice(Math.max(0, middle - before), middle + after)
}

/** What was measured at one moment: by how much a clock jumped, for how long a process got no processor. */
function notes({ events }: History): FaultSpan[] {
  return events
    .filter(({ op, phase }) => op === 'fault' && phase === 'info')
    .map(({ kind, value, target, t }) => ({ kind: `${kind}: ${value}`, target, from: t, to: t }))
}

function describe({ client, op, phase, attempt, ...more }: Event, at: number): string {
  const { mode, permits, of, fair, wait, token, value, until, kind } = more
  const parts = [client, op, phase, attempt ?? '']
  if (mode !== undefined && mode !== 'exclusive') parts.push(mode)
  if (permits !== undefined) parts.push(`${permits}/${of}`)
  if (fair) parts.push('fair')
  if (op === 'acquire' && phase === 'invoke')
    parts.push(wait === undefined ? 'waits for ever' : `wait ${wait}`)
  if (token !== undefined) parts.push(`token ${token}`)
  if (value !== undefined) parts.push(`value ${value}`)
  if (until !== undefined) parts.push(`until ${relative(until - at).trim()}`)
  if (kind !== undefined) parts.push(`(${kind})`)
  return parts.filter((part) => part !== '').join(' ')
}

function describeFault({ kind, target, to }: FaultSpan, at: number): string {
  const of = target === undefined ? '' : ` of process ${target}`
  return `${kind}${of}, ${to === Number.POSITIVE_INFINITY ? 'not ended' : `until ${relative(to - at).trim()}`}`
}

const relative = (nanoseconds: number) =>
  `${nanoseconds >= 0 ? '+' : ''}${(nanoseconds / 1e6).toFixed(3)} ms`.padStart(16)
