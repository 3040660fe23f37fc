/**
 * What the judges of `holdfast/verify` need to know about locks that stay with their process after a release (`linger`). The workers record which
 * takes have a `linger`, and which grants came without a request: such a grant is a reuse, unless it was requested before the release.
 */
import type { Lease, Locks } from 'holdfast'
import type { Acquisition, Event, History, Recorder, Violation } from 'holdfast/verify'

/** How often caching took place. */
export interface CachingCounts {
  /** Takes with `linger` that were granted. */
  readonly lingering: number
  /** Grants that came without a request to the store, after the release of the holder before. */
  readonly reused: number
  /** Grants to others while the lock would still have been cached by its previous holder. */
  readonly gaveWay: number
}

export interface Caching extends CachingCounts {
  /** Why caching explains a finding; undefined: it does not. */
  excuse(violation: Violation): string | undefined
}

const lingers = 'lingers'
const handedOver = 'handed over'

/** The lock stays with the process for `linger` ms after the release of this lease. */
export function noteLinger(journal: Recorder, lease: Lease, linger: number): void {
  const { leases = [lease] } = lease as Lease & { readonly leases?: readonly Lease[] }
  for (const { name, token } of leases)
    journal.write({ op: 'acquire', phase: 'info', kind: lingers, name, token, value: linger })
}

/** Notes every grant that comes without a request to the store. */
export function noteHandOvers(locks: Locks, journal: Recorder): void {
  locks.on('granted', ({ name, token, handedOff }) => {
    if (handedOff) journal.write({ op: 'acquire', phase: 'info', kind: handedOver, name, token })
  })
}

/** Which grants came without a request to the store, by those notes. */
export function findHandedOver({ events }: History): (one: Acquisition) => boolean {
  const handed = new Set<string>()
  for (const event of events)
    if (event.op === 'acquire' && event.attempt === undefined && event.kind === handedOver)
      handed.add(key(event))
  return (one) => handed.has(key(one))
}

/** A single attempt that a cache has refused waits in the queue for at least this many ms. */
const leastPatience = 10 * 0.99

/** @param kept how long a store may keep a lock that nobody renews, or grant nothing, in ms */
export function findCaching(history: History, kept: number): Caching {
  const { events, acquisitions } = history
  const lingering = new Map<string, number>()
  const wasHandedOver = findHandedOver(history)
  for (const event of events) {
    const { attempt, op, kind, value = 0 } = event
    if (op !== 'acquire' || attempt !== undefined) continue
    if (kind === lingers) lingering.set(key(event), value * 1e6)
  }
  const reuses = new Set<Acquisition>()
  let gaveWay = 0
  for (const granted of inOrder(acquisitions)) {
    const own = new Map<string, Acquisition>()
    for (const [i, one] of granted.entries()) {
      const before = own.get(one.client)
      if (wasHandedOver(one) && (before?.releasing ?? Number.POSITIVE_INFINITY) < one.invoked) reuses.add(one)
      const last = granted[i - 1]
      if (last?.released !== undefined && last.client !== one.client && last.died === undefined)
        if ((one.granted ?? 0) < last.released + (lingering.get(key(last)) ?? 0)) gaveWay++
      own.set(one.client, one)
    }
  }
  const cached = inOrder(acquisitions).flatMap((all) => findCached(all, lingering, kept))
  const wasCached = ({ name, invoked, failed = 0 }: Acquisition) =>
    cached.some((one) => one.name === name && one.from <= failed && invoked <= one.to)
  /** A try that a cache has refused is a waiter meanwhile, so another try beside it is refused at once. */
  const waiting = acquisitions.filter((one) => one.wait === 0 && waited(one) && wasCached(one))
  const isBeside = ({ name, invoked, failed = 0 }: Acquisition) =>
    waiting.some((one) => one.name === name && one.invoked <= failed && invoked <= (one.failed ?? 0))
  return {
    lingering: lingering.size,
    reused: reuses.size,
    gaveWay,
    excuse: ({ rule, parties }) => {
      if (rule === 'false-busy' && parties.every((one) => (waited(one) && wasCached(one)) || isBeside(one)))
        return 'a process had it cached, and was not notified of the waiter in time (docs/primitives.md)'
      if (rule === 'tokens' && parties.some((one) => one.forced !== undefined && reuses.has(one)))
        return 'an operator took a cached lock, and its process reused it before it learned of that (docs/primitives.md)'
      return undefined
    },
  }
}

/**
 * When a lock may have been cached: from a release on, until it was granted again, which the store can do only once the cached grant is over there.
 * Only an exclusive lock is cached.
 */
function findCached(
  granted: readonly Acquisition[],
  lingering: ReadonlyMap<string, number>,
  kept: number,
): { readonly name: string; readonly from: number; readonly to: number }[] {
  const grants = granted.map((one) => one.granted ?? 0).sort((a, b) => a - b)
  return granted.flatMap((one) => {
    const { name, mode, releasing = 0, released } = one
    const linger = lingering.get(key(one))
    if (mode !== 'exclusive' || linger === undefined || released === undefined) return []
    const again = grants.find((at) => at >= releasing) ?? Number.POSITIVE_INFINITY
    return [{ name, from: released, to: Math.min(released + linger + kept * 1e6, again) }]
  })
}

const waited = ({ invoked, failed = 0 }: Acquisition) => failed - invoked >= leastPatience * 1e6

const key = ({ client, name, token }: Pick<Event, 'client' | 'name' | 'token'> | Acquisition) =>
  `${client} ${token} ${name}`

/** The granted acquisitions of each name, by token. */
function inOrder(acquisitions: readonly Acquisition[]): Acquisition[][] {
  const names = new Map<string, Acquisition[]>()
  for (const one of acquisitions) {
    if (one.granted === undefined) continue
    const known = names.get(one.name)
    if (known === undefined) names.set(one.name, [one])
    else known.push(one)
  }
  return [...names.values()].map((all) => all.sort((a, b) => (a.token ?? 0) - (b.token ?? 0)))
}
