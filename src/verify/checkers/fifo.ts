import type { Event } from '../event.js'
import { type Acquisition, acquisitionsByName, type History } from '../history.js'
import { type Violation, violation } from '../violation.js'

export interface FifoOptions {
  /** How many fair ones may be served before a fair waiter although they asked after it stood in line. @default 0 */
  readonly bound?: number
  /** How many of any kind may be served before any waiter. @default Infinity */
  readonly unfairBound?: number
  /**
   * A waiter that was never heard to be in line is taken to be there after so many ms. By default nothing is said about it:
   * its request may have been on its way for long.
   * @default Infinity
   */
  readonly settle?: number
  /**
   * How many more are allowed for each fault done to the waiter's process or to everybody while it waited. It may have
   * lost its place, so nothing is said about it by default. @default Infinity
   */
  readonly perFault?: number
  /**
   * How long an answer may take, in ms. A reader, or who wants permits, that gave up may have been granted in its turn by one that was on its way,
   * and others beside it: only who was served earlier than that before it left was served before it.
   * @default 50
   */
  readonly onItsWay?: number
}

/**
 * First come, first served, up to a bound. `x` went before `w` unduly if `w` was in line when `x` was called, and `x` was
 * granted first: by token, which is the order of grants, or, where `w` was never granted, before it had left the line.
 */
export function fifo(history: History, options: FifoOptions = {}): Violation[] {
  const { bound = 0, unfairBound = Number.POSITIVE_INFINITY } = options
  const found: Violation[] = []
  for (const all of acquisitionsByName(history).values()) {
    const fair = all.filter((one) => one.fair)
    if (bound < Number.POSITIVE_INFINITY) judge(history, fair, bound, options, found)
    if (unfairBound < Number.POSITIVE_INFINITY) judge(history, all, unfairBound, options, found)
  }
  return found
}

function judge(
  history: History,
  all: readonly Acquisition[],
  bound: number,
  options: FifoOptions,
  found: Violation[],
) {
  const { settle = Number.POSITIVE_INFINITY, perFault = Number.POSITIVE_INFINITY } = options
  const { onItsWay = 50 } = options
  const queuedAt = (one: Acquisition) => one.queued ?? one.invoked + settle * 1e6
  const servedOrGone = (one: Acquisition) =>
    one.granted ?? leftAt(one) - (one.mode === 'exclusive' ? 0 : onItsWay * 1e6)
  let faults: readonly Event[] | undefined
  for (const { waiter, count } of overtaken(all, queuedAt, servedOrGone)) {
    if (count <= bound) continue
    const ended = waiter.granted ?? waiter.failed ?? history.end
    faults ??= history.events.filter((event) => event.op === 'fault')
    const hits = faults.filter((fault) => touches(fault, waiter, ended)).length
    if (hits > 0 && count <= bound + hits * perFault) continue
    const { name } = waiter
    const message = `${JSON.stringify(name)}: ${count} that came later were served before a waiter; ${bound} may be`
    const before = all.filter((one) => one.invoked > queuedAt(waiter) && wasBefore(one, waiter, servedOrGone))
    found.push(
      violation(history, {
        rule: 'fifo',
        name,
        message,
        at: ended,
        parties: [waiter, ...before.slice(0, 3)],
      }),
    )
  }
}

function touches(
  fault: { readonly t: number; readonly target?: number },
  waiter: Acquisition,
  ended: number,
): boolean {
  return (
    (fault.target === undefined || fault.target === waiter.pid) &&
    fault.t >= waiter.invoked &&
    fault.t <= ended
  )
}

/** Was `x` served before `w`? */
function wasBefore(x: Acquisition, w: Acquisition, servedOrGone: (one: Acquisition) => number): boolean {
  if (x.granted === undefined) return false
  if (w.granted !== undefined && w.token !== undefined && x.token !== undefined) return x.token < w.token
  return x.granted < servedOrGone(w)
}

/** Whose time has run out stands in no line any more, also where its process was too busy to notice: the store knows by when it wanted it. */
function leftAt({ failed, died, invoked, wait }: Acquisition): number {
  return Math.min(failed ?? died ?? Number.POSITIVE_INFINITY, invoked + wait * 1e6)
}

/** For each waiter, how many were called after it stood in line and served before it: from the last call backwards. */
function overtaken(
  all: readonly Acquisition[],
  queuedAt: (one: Acquisition) => number,
  servedOrGone: (one: Acquisition) => number,
): { waiter: Acquisition; count: number }[] {
  const served = all.filter((one) => one.granted !== undefined).sort((a, b) => b.invoked - a.invoked)
  const byToken = ranks(served.map((one) => one.token ?? Number.POSITIVE_INFINITY))
  const byTime = ranks(served.map((one) => one.granted ?? 0))
  let next = 0
  return [...all]
    .sort((a, b) => queuedAt(b) - queuedAt(a))
    .map((waiter) => {
      for (let x = served[next]; x !== undefined && x.invoked > queuedAt(waiter); x = served[++next]) {
        byToken.add(x.token ?? Number.POSITIVE_INFINITY)
        byTime.add(x.granted ?? 0)
      }
      const useTokens = waiter.granted !== undefined && waiter.token !== undefined
      const count = useTokens ? byToken.below(waiter.token ?? 0) : byTime.below(servedOrGone(waiter))
      return { waiter, count }
    })
    .reverse()
}

/** Counts how many of the numbers added so far lie below a limit, in log n: a Fenwick tree over all that may be added. */
function ranks(values: readonly number[]): { add(value: number): void; below(limit: number): number } {
  const sorted = [...new Set(values)].sort((a, b) => a - b)
  const tree = new Int32Array(sorted.length + 1)
  const rankOf = (value: number) => {
    let low = 0
    let high = sorted.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sorted[middle] ?? 0) < value) low = middle + 1
      else high = middle
    }
    return low
  }
  return {
    add(value) {
      for (let i = rankOf(value) + 1; i < tree.length; i += i & -i) tree[i] = (tree[i] ?? 0) + 1
    },
    below(limit) {
      let count = 0
      for (let i = rankOf(limit); i > 0; i -= i & -i) count += tree[i] ?? 0
      return count
    },
  }
}
