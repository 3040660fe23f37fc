/** The verdict on a run's history; violations that a driver does not rule out after certain faults are counted apart. */
import {
  type Acquisition,
  check,
  findStarvation,
  type History,
  isLateByStarvation,
  type Starvation,
  type Violation,
} from 'holdfast/verify'
import { type CachingCounts, findCaching } from './caching.js'
import { type FaultSpan, faultSpans } from './fault-spans.js'
import type { Excuse, Fault, Store } from './store.js'
import { noAnswer } from './store-watch.js'
import { longest } from './workload.js'

export interface ExcusedViolation {
  readonly violation: Violation
  readonly fault: string
  readonly why: string
}

export interface Counts {
  readonly acquisitions: number
  readonly granted: number
  /** Reported lost before they were released. */
  readonly lost: number
  readonly renewals: number
  /** Waits that ended without the lock, by reason. */
  readonly refused: Readonly<Record<string, number>>
  readonly guarded: number
  readonly stale: number
  readonly events: number
  /** For how long some process of the lab was ready to run and got no processor, in ms. */
  readonly starved: number
}

export interface Verdict {
  readonly violations: readonly Violation[]
  readonly excused: readonly ExcusedViolation[]
  /** Failures of the run itself: a fault that could not be done, a worker that crashed. */
  readonly complaints: readonly string[]
  readonly counts: Counts
  /** Where locks may stay with their process. */
  readonly caching?: CachingCounts
}

/** What the verdict depends on besides the history: `ttl` is that of the run, in ms. */
export type Judged = Pick<Store, 'settles' | 'check' | 'lingers'> & { readonly ttl: number }

/** How long after a fault order may be violated, in ms: an affected worker comes back in its own time. */
const excuseWindow = 1_000

export function evaluateRun(
  whole: History,
  faults: readonly Fault[],
  store: Judged,
  complaints: readonly string[],
): Verdict {
  const starvation = findStarvation(whole, [noAnswer])
  const { history } = starvation
  const spans = faultSpans(history)
  const { lag = 0 } = store.check?.falseBusy || {}
  const { excuse: cached, ...caching } = findCaching(history, longest * store.ttl + lag)
  const excuses = faults.flatMap(({ kind, excuses = [] }) =>
    excuses.map((excuse) => ({ ...excuse, kind, explains: excuse.explains?.(history) })),
  )
  const violations: Violation[] = []
  const excused: ExcusedViolation[] = []
  for (const violation of check(history, { liveness: { within: store.settles }, ...store.check })) {
    if (violation.rule === 'fifo' && violation.parties.some((one) => touched(one, spans, history.end)))
      continue
    const why = cached(violation)
    const excuse =
      excuseFor(violation, spans, excuses) ??
      excuseForMachine(violation, starvation, store) ??
      (why === undefined ? undefined : { fault: 'linger', why })
    if (excuse === undefined) violations.push(violation)
    else excused.push({ violation, ...excuse })
  }
  const counts = { ...countEvents(history), starved: Math.round(starvation.within(0, history.end)) }
  return { violations, excused, complaints, counts, ...(store.lingers === true && { caching }) }
}

/**
 * What the machine explains. A late wait that would have kept to the bound without what the machine did; one that never ended has no excuse.
 * And an overtaken fair waiter, if a process got no processor for a whole ttl during the wait: a grant can be used up before its process, or
 * the store, has looked at it, and the waiter then queues again.
 */
function excuseForMachine(
  violation: Violation,
  starvation: Starvation,
  { settles, ttl }: Judged,
): { fault: string; why: string } | undefined {
  const fault = 'starved by the machine'
  const {
    rule,
    at,
    parties: [one],
  } = violation
  if (rule === 'fifo' && one !== undefined && starvation.within(one.invoked, at) >= ttl)
    return { fault, why: 'during the wait some process got no processor for as long as a grant lasts' }
  if (!isLateByStarvation(violation, starvation, settles)) return undefined
  const why =
    'for as long as the wait was late, processes of the lab got no processor or the store answered nobody'
  return { fault, why }
}

/** The checker looks for faults that begin or end during a wait; here a fault may also last through it. */
function touched(one: Acquisition, spans: readonly FaultSpan[], end: number): boolean {
  const ended = one.granted ?? one.failed ?? one.died ?? end
  const concerns = (span: FaultSpan) => span.target === undefined || span.target === one.pid
  return spans.some(
    (span) => concerns(span) && span.from <= ended && span.to + excuseWindow * 1e6 >= one.invoked,
  )
}

type OfFault = Omit<Excuse, 'explains'> & {
  readonly kind: string
  readonly explains: ((violation: Violation) => boolean) | undefined
}

function excuseFor(violation: Violation, spans: readonly FaultSpan[], excuses: readonly OfFault[]) {
  for (const { kind, rules, beside, explains, why, within: ms } of excuses) {
    if (!rules.includes(violation.rule) || explains?.(violation) === false) continue
    const within = ms * 1e6
    // A fault of one worker excuses violations that the worker takes part in.
    const near = (span: FaultSpan) =>
      span.kind === kind &&
      (span.target === undefined || violation.parties.some(({ pid }) => pid === span.target)) &&
      violation.at >= span.from &&
      violation.at - violation.lasted <= span.to + within
    const joined = (span: FaultSpan) =>
      beside === undefined ||
      spans.some(
        ({ kind, from, to }) =>
          beside.includes(kind) &&
          from <= violation.at &&
          from <= span.to + within &&
          to >= span.from - within,
      )
    if (spans.some((span) => near(span) && joined(span))) return { fault: kind, why }
  }
  return undefined
}

function countEvents(history: History): Omit<Counts, 'starved'> {
  const { acquisitions, events } = history
  const refused: Record<string, number> = {}
  for (const { failed, events } of acquisitions) {
    const kind = events.at(-1)?.kind ?? 'unknown'
    if (failed !== undefined) refused[kind] = (refused[kind] ?? 0) + 1
  }
  const count = (op: string, phase: string, kind?: string) =>
    events.filter((one) => one.op === op && one.phase === phase && (kind === undefined || one.kind === kind))
      .length
  return {
    acquisitions: acquisitions.length,
    granted: acquisitions.filter((one) => one.granted !== undefined).length,
    lost: acquisitions.filter((one) => one.lost !== undefined).length,
    renewals: count('renew', 'ok'),
    refused,
    guarded: count('write', 'ok'),
    stale: count('write', 'fail', 'stale') + count('read', 'fail', 'stale'),
    events: events.length,
  }
}
