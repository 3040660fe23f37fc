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
      .filter((one) => !fittedBeside(one, waiter, everyone))
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
 * Did a reader or a permit request `x`, served before `w`, cost `w` nothing? A store that cannot reach `w` at once keeps its room free, and
 * may let in what fits beside it. What counts is the room at the moment when `x` was served, not what is known of the time around it: of two
 * requests sent together, a release and `x`, the first is still unanswered when `x` is called, and has made room for both all the same.
 * - Readers fit beside each other. If `x` made `w` wait, it is because a writer was served between them.
 * - Permits fit if there are enough for `x`, for `w`, and for all that were certainly held when `x` was served. A hold that
 *   was being released by the time `x` was known to be served may have ended before it, so it proves nothing against `x`.
 */
function fittedBeside(x: Acquisition, w: Acquisition, everyone: readonly Acquisition[]): boolean {
  if (x.mode === 'exclusive' || x.mode !== w.mode || w.granted === undefined) return false
  if (x.mode === 'shared') return !everyone.some((one) => one.mode === 'exclusive' && isBetween(one, x, w))
  const served = Math.min(x.granted ?? w.granted, w.granted)
  let taken = x.permits + w.permits
  for (const one of everyone)
    if (one !== x && one !== w && wasServedBefore(one, x) && heldUntil(one) > served) taken += one.permits
  return taken <= x.of
}

const isBetween = (one: Acquisition, x: Acquisition, w: Acquisition) =>
  wasServedBefore(x, one) && wasServedBefore(one, w)

const wasServedBefore = (one: Acquisition, other: Acquisition) =>
  wasBefore(one, other, ({ granted = Number.POSITIVE_INFINITY }) => granted)

/** Until then it was certainly held. */
function heldUntil({ releasing, forced, lost, died, until }: Acquisition): number {
  return Math.min(...[releasing, forced, lost, died, until].map((at) => at ?? Number.POSITIVE_INFINITY))
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
