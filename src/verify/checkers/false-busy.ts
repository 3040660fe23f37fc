import { type Acquisition, acquisitionsByName, type History } from '../history.js'
import { intervalEnd } from '../intervals.js'
import { type Violation, violation } from '../violation.js'

export interface FalseBusyOptions {
  /**
   * How much longer a store may keep an unreleased hold than its holder did (lease remainder, quarantine), and a claim whose caller is gone, in ms.
   * @default 1_000
   */
  readonly lag?: number
}

/**
 * A refused try had a reason: at some moment between its call and its reply, the lock was held, might have been held, or had a waiter. For
 * permits, the reasons must add up to too few left.
 */
export function falseBusy(history: History, options: FalseBusyOptions = {}): Violation[] {
  const lag = (options.lag ?? 1_000) * 1e6
  const found: Violation[] = []
  for (const [name, all] of acquisitionsByName(history)) {
    const tries = all.filter(cameBackEmpty)
    if (tries.length === 0) continue
    // A refused try takes nothing, so it is no reason to refuse another.
    const spans = all
      .filter((one) => !cameBackEmpty(one))
      .map((of) => ({ from: of.invoked, to: occupiedUntil(of, lag), of }))
    const exclusive = tally(spans.filter((span) => span.of.mode === 'exclusive'))
    const shared = tally(spans.filter((span) => span.of.mode === 'shared'))
    const permits = tally(spans.filter((span) => span.of.mode === 'permits'))
    for (const one of tries) {
      const ended = one.failed ?? 0
      const within = (count: Tally) => count(one.invoked, ended)
      const excused =
        within(exclusive) > 0 ||
        (one.mode !== 'shared' && within(shared) > 0) ||
        (one.mode === 'permits' ? within(permits) + one.permits > one.of : within(permits) > 0)
      if (excused) continue
      const message = `${JSON.stringify(name)}: a try was told it is not free, but nobody had it or wanted it`
      found.push(violation(history, { rule: 'false-busy', name, message, at: ended, parties: [one] }))
    }
  }
  return found
}

const cameBackEmpty = (one: Acquisition) =>
  one.wait === 0 && one.failed !== undefined && one.events.at(-1)?.kind === 'busy'

interface Span {
  readonly from: number
  readonly to: number
  readonly of: Acquisition
}

/** Until when the store may have kept it: the reply to the release, or the deadline plus `lag`. */
function occupiedUntil(one: Acquisition, lag: number): number {
  if (one.granted === undefined) return (one.failed ?? one.died ?? Number.POSITIVE_INFINITY) + lag
  if (one.released !== undefined) return one.released
  return Math.max(one.until ?? 0, intervalEnd(one)) + lag
}

type Tally = (from: number, to: number) => number

/** In log n: the permits taken (1 per hold in other modes) by all spans that intersect an interval. */
function tally(spans: readonly Span[]): Tally {
  const begins = sums(spans.map((span) => [span.from, weight(span)]))
  const ends = sums(spans.map((span) => [span.to, weight(span)]))
  return (from, to) => begins(to, true) - ends(from, false)
}

const weight = (span: Span) => (span.of.mode === 'permits' ? span.of.permits : 1)

function sums(points: [at: number, weight: number][]): (limit: number, inclusive: boolean) => number {
  points.sort((a, b) => a[0] - b[0])
  const totals = [0]
  for (const [, weight] of points) totals.push((totals.at(-1) ?? 0) + weight)
  return (limit, inclusive) => {
    let low = 0
    let high = points.length
    while (low < high) {
      const middle = (low + high) >> 1
      const at = points[middle]?.[0] ?? 0
      if (at < limit || (inclusive && at === limit)) low = middle + 1
      else high = middle
    }
    return totals[low] ?? 0
  }
}
