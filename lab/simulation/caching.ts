/**
 * What the judges of `holdfast/verify` need to know about locks that stay with their process after a release (`linger`), and a check that only the
 * simulated world can make: a grant must not be reused after its connection has broken.
 *
 * A grant that takes no simulated time came without a request. It is a reuse, unless its process released the lock at the same instant: then
 * it was handed over.
 */
import type { Acquisition, History, Violation } from 'holdfast/verify'
import type { Plan } from './plan.js'

export interface Caching {
  /** Grants that came without a request. */
  readonly reused: number
  /** Grants to another process while the lock would still have been cached by its previous holder. */
  readonly gaveWay: number
  /** Of these: single attempts that were refused first and then asked once more. */
  readonly askedAgain: number
  /** Findings that caching explains. */
  readonly excused: number
}

/** A single attempt that a cache has refused waits in the queue for at least this many ms, by a clock that may run slightly fast. */
const leastPatience = 10 * 0.99
/** The longest delay of a message, in ms, without faults; during faults no drawn delay is longer. */
const slowestMessage = 25
const longestFault = 3_000

export const noCaching: Caching = { reused: 0, gaveWay: 0, askedAgain: 0, excused: 0 }

export function addCaching(one: Caching, other: Caching): Caching {
  return {
    reused: one.reused + other.reused,
    gaveWay: one.gaveWay + other.gaveWay,
    askedAgain: one.askedAgain + other.askedAgain,
    excused: one.excused + other.excused,
  }
}

interface Judgement extends Caching {
  readonly violations: readonly Violation[]
  readonly complaints: readonly string[]
}

export function judgeCaching(
  plan: Plan,
  history: History,
  found: readonly Violation[],
  breaks: (process: number) => readonly number[],
): Judgement {
  const linger = Math.max(...plan.visits.map(({ linger = 0 }) => linger)) * 1e6
  if (linger === 0) return { ...noCaching, complaints: [], violations: found }
  const { acquisitions } = history
  const reuses = acquisitions.filter((one) => isReuse(one, acquisitions))
  const given = acquisitions.filter((one) => isGiven(one, acquisitions, linger))
  const violations = found.filter((one) => !isExcused(one, plan, history, reuses))
  return {
    violations,
    excused: found.length - violations.length,
    reused: reuses.length,
    gaveWay: given.length,
    askedAgain: given.filter(({ wait }) => wait === 0).length,
    complaints: reuses.flatMap((one) => findBreak(one, acquisitions, breaks(one.pid)) ?? []),
  }
}

const granted = (one: Acquisition) => one.granted ?? Number.POSITIVE_INFINITY

/** Acquisitions of the same name granted before `one`, newest first. */
function before(one: Acquisition, all: readonly Acquisition[]): Acquisition[] {
  return all
    .filter((other) => other !== one && other.name === one.name && (other.token ?? 0) > 0)
    .filter((other) => granted(other) <= granted(one))
    .sort((a, b) => (b.token ?? 0) - (a.token ?? 0))
}

function isReuse(one: Acquisition, all: readonly Acquisition[]): boolean {
  if (one.granted === undefined || one.granted !== one.invoked) return false
  const own = before(one, all).find(({ pid }) => pid === one.pid)
  return own?.released !== undefined && own.released < one.granted
}

/** It was reported as waiting, or refused first, while nobody held the lock: a process had it cached. */
function isGiven(one: Acquisition, all: readonly Acquisition[], linger: number): boolean {
  if (one.granted === undefined || one.queued === undefined) return false
  const [last] = before(one, all)
  if (last?.released === undefined || last.pid === one.pid || last.mode !== 'exclusive') return false
  return last.released < one.invoked && one.granted < last.released + linger
}

/** A reuse of a grant although its process knew that the connection was gone. */
function findBreak(
  one: Acquisition,
  all: readonly Acquisition[],
  breaks: readonly number[],
): string | undefined {
  const asked = before(one, all).find(({ pid, granted, invoked }) => pid === one.pid && granted !== invoked)
  const from = asked?.granted ?? 0
  const broke = breaks.find((at) => at * 1e6 > from && at * 1e6 < granted(one))
  if (broke === undefined) return undefined
  return `token ${one.token} of '${one.name}' was used again at ${granted(one) / 1e6} ms, though a connection had broken at ${broke} ms`
}

/** A single attempt that met a cached lock and was in the queue for its full time. */
export function queuedForCache(one: Acquisition, all: readonly Acquisition[]): boolean {
  return (one.failed ?? 0) - one.invoked >= leastPatience * 1e6 && wasCached(one, all)
}

/** During the attempt, the last one that had been granted the lock was an exclusive one that had released it. */
function wasCached({ name, invoked, failed = 0 }: Acquisition, all: readonly Acquisition[]): boolean {
  return all.some((one) => {
    const { mode, releasing = 0, released = Number.POSITIVE_INFINITY } = one
    if (one.name !== name || mode !== 'exclusive' || released > failed) return false
    return !all.some((next) => next !== one && next.name === name && isBetween(next, releasing, invoked))
  })
}

const isBetween = (one: Acquisition, from: number, to: number) => from <= granted(one) && granted(one) < to

/**
 * - An attempt that met a cached lock and queued for its full time, while its holder was not notified soon enough, was refused legitimately.
 * - An operator took a lock that was only cached. Its process may reuse it until it learns of that.
 */
function isExcused(
  { rule, parties }: Violation,
  plan: Plan,
  { events, acquisitions }: History,
  reuses: readonly Acquisition[],
): boolean {
  if (rule === 'false-busy') return parties.every((one) => queuedForCache(one, acquisitions))
  if (!['exclusion', 'read-write', 'tokens'].includes(rule)) return false
  const within = plan.faults.length > 1 ? longestFault : slowestMessage
  return parties.some(
    (one) =>
      reuses.includes(one) &&
      events.some(({ op, t }) => op === 'force' && t <= granted(one) && granted(one) <= t + within * 1e6),
  )
}
