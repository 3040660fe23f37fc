import type { Event } from '../event.js'
import { type Acquisition, acquisitionsByName, type History } from '../history.js'
import { type Violation, violation } from '../violation.js'

export interface FifoOptions {
  /** Maximum number of fair acquisitions served before a fair waiter although they were called after it was queued. @default 0 */
  readonly bound?: number
  /** Maximum number of acquisitions of any kind served before any waiter. @default Infinity */
  readonly unfairBound?: number
  /**
   * Ms after its call from which a waiter never reported as queued counts as queued. By default such a waiter is not judged: its request
   * may have been in transit for long.
   * @default Infinity
   */
  readonly settle?: number
  /**
   * Additional overtakers allowed per fault of the waiter's process, or of all processes, during its wait. The fault may have cost it its
   * queue entry, so by default such a waiter is not judged. @default Infinity
   */
  readonly perFault?: number
  /**
   * Maximum time a reply takes, in ms. A reader or a permit request that gave up may have been granted in its turn, by a reply still in
   * transit, and others beside it: only acquisitions served at least this long before it left were served before it.
   * @default 50
   */
  readonly inFlight?: number
}

/**
 * First in, first out, up to a bound. `x` overtook `w` unduly if `w` was queued when `x` was called, and `x` was granted first: by token,
 * which is the order of grants, or, if `w` was never granted, before `w` had left the queue. One that fitted beside `w` does not count.
 */
export function fifo(history: History, options: FifoOptions = {}): Violation[] {
  const { bound = 0, unfairBound = Number.POSITIVE_INFINITY } = options
  const found: Violation[] = []
  for (const all of acquisitionsByName(history).values()) {
    const fair = all.filter((one) => one.fair)
    if (bound < Number.POSITIVE_INFINITY) checkBounds(history, fair, all, bound, options, found)
    if (unfairBound < Number.POSITIVE_INFINITY) checkBounds(history, all, all, unfairBound, options, found)
  }
  return found
}

function checkBounds(
  history: History,
  all: readonly Acquisition[],
  everyone: readonly Acquisition[],
  bound: number,
  options: FifoOptions,
  found: Violation[],
) {
  const { settle = Number.POSITIVE_INFINITY, perFault = Number.POSITIVE_INFINITY } = options
  const { inFlight = 50 } = options
  const queuedAt = (one: Acquisition) => one.queued ?? one.invoked + settle * 1e6
  const servedOrGone = (one: Acquisition) =>
    one.granted ?? leftAt(one) - (one.mode === 'exclusive' ? 0 : inFlight * 1e6)
  let faults: readonly Event[] | undefined
  for (const suspect of overtaken(all, queuedAt, servedOrGone)) {
    if (suspect.count <= bound) continue
    const { waiter } = suspect
    const before = all
      .filter((one) => one.invoked > queuedAt(waiter) && wasBefore(one, waiter, servedOrGone))
      .filter((one) => !canHoldTogether(one, waiter, everyone))
    const count = before.length
    if (count <= bound) continue
    const ended = waiter.granted ?? waiter.failed ?? history.end
    faults ??= history.events.filter((event) => event.op === 'fault')
    const hits = faults.filter((fault) => touches(fault, waiter, ended)).length
    if (hits > 0 && count <= bound + hits * perFault) continue
    const { name } = waiter
    const message = `${JSON.stringify(name)}: ${count} that came later were served before a waiter; ${bound} may be`
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

/**
 * Did a reader or a permit request `x`, served before `w`, cost `w` nothing? If no hold ended between its call and the grant of `w`, there
 * was room for both when `x` was served: a store that could not reach `w` may let in what fits beside it.
 */
function canHoldTogether(x: Acquisition, w: Acquisition, everyone: readonly Acquisition[]): boolean {
  const { granted } = w
  if (x.mode === 'exclusive' || granted === undefined) return false
  return !everyone.some((one) => {
    if (one === x || one === w || one.granted === undefined || one.granted > granted) return false
    const from = one.releasing ?? one.forced ?? one.lost ?? one.died ?? one.until ?? Number.POSITIVE_INFINITY
    const to = one.released ?? Number.POSITIVE_INFINITY
    return from < granted && to > x.invoked
  })
}

/** A waiter leaves the queue when its wait expires, even if its process was too busy to notice: the store knows its deadline. */
function leftAt({ failed, died, invoked, wait }: Acquisition): number {
  return Math.min(failed ?? died ?? Number.POSITIVE_INFINITY, invoked + wait * 1e6)
}

/** For each waiter, how many were called after it was queued and served before it: from the last call backwards. */
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

/** Counts in log n how many of the added numbers are below a limit: a Fenwick tree over all numbers that may be added. */
function ranks(values: readonly number[]): { add(value: number): void; below(limit: number): number } {
  const sorted = [...new Set(values)].sort((a, b) => a - b)
  const tree = new Int32Array(sorted.length + 1)
  const findRank = (value: number) => {
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
      for (let i = findRank(value) + 1; i < tree.length; i += i & -i) tree[i] = (tree[i] ?? 0) + 1
    },
    below(limit) {
      let count = 0
      for (let i = findRank(limit); i > 0; i -= i & -i) count += tree[i] ?? 0
      return count
    },
  }
}
