/** Groups events into acquisitions and sorts everything by time. */
import { type Event, fatalFault, type ModeKind } from './event.js'
import { type Force, markForced, noteForce } from './forced.js'
import { groupBy } from './group-by.js'

/**
 * One acquisition from the call to its end. All times are nanoseconds since the first event; `undefined` = not in the history.
 */
export interface Acquisition {
  readonly attempt: string
  readonly name: string
  readonly pid: number
  readonly client: string
  readonly mode: ModeKind
  readonly permits: number
  readonly of: number
  readonly fair: boolean
  /** Maximum wait in milliseconds; Infinity = for ever. */
  readonly wait: number
  readonly invoked: number
  /** When it was reported as queued. */
  readonly queued: number | undefined
  readonly granted: number | undefined
  /**
   * The store granted it no earlier than this. A lease counts its term from the call of the request that obtained it, so this is its first
   * deadline less its term; `granted` if either is unknown.
   */
  readonly proven: number | undefined
  readonly token: number | undefined
  /** The last reported deadline, whether shorter or longer than the one before. */
  readonly until: number | undefined
  /** When it requested a downgrade to shared; from then on it claims only a shared hold. */
  readonly downgrading: number | undefined
  readonly releasing: number | undefined
  /** When the store released it. Absent for a release that found the lease lost by its own clock; the store may keep it for a while. */
  readonly released: number | undefined
  readonly lost: number | undefined
  /** When an operator may have force-released it: claims from then on violate nothing. */
  readonly forced: number | undefined
  /** Timed out, refused, cancelled or broken: no lease was granted. */
  readonly failed: number | undefined
  /** Its process was killed, and wrote nothing after this. */
  readonly died: number | undefined
  readonly events: readonly Event[]
}

export interface History {
  /** Ordered by time. */
  readonly events: readonly Event[]
  /** Ordered by call. */
  readonly acquisitions: readonly Acquisition[]
  /** The time of the last event. */
  readonly end: number
}

type Draft = { -readonly [K in keyof Acquisition]: Acquisition[K] } & { events: Event[] }

export function createHistory(unsorted: readonly Event[]): History {
  // The sort is stable, so events of one process in the same nanosecond keep their order.
  const events = [...unsorted].sort((a, b) => a.t - b.t)
  const drafts = new Map<string, Draft>()
  const lastSeen = new Map<string, number>()
  const kills = new Map<string, Kill>()
  const forces: Force[] = []
  for (const event of events) {
    lastSeen.set(event.client, event.t)
    if (event.op === 'fault') {
      if (event.kind === fatalFault) noteKill(kills, event)
    } else if (event.op === 'force') {
      noteForce(forces, event)
    } else if (event.attempt !== undefined) {
      apply(drafts, event, event.attempt)
    }
  }
  const acquisitions = [...drafts.values()]
  markDead(acquisitions, [...kills.values()], lastSeen)
  markForced(acquisitions, forces, lastSeen)
  return { events, acquisitions, end: events.at(-1)?.t ?? 0 }
}

function apply(drafts: Map<string, Draft>, event: Event, attempt: string): void {
  const known = drafts.get(attempt)
  const draft = known ?? begin(event, attempt)
  // Writes and reads outside an acquisition do not form one.
  if (known === undefined) {
    if (event.op !== 'acquire') return
    drafts.set(attempt, draft)
  }
  draft.events.push(event)
  if (event.until !== undefined) draft.until = event.until
  if (event.op === 'acquire') {
    if (event.phase === 'ok') {
      draft.granted ??= event.t
      draft.proven ??= proven(event)
      draft.token ??= event.token
    } else if (event.phase === 'fail') draft.failed ??= event.t
    else if (event.phase === 'info') draft.queued ??= event.t
  } else if (event.op === 'release') {
    if (event.phase === 'invoke') draft.releasing ??= event.t
    else if (event.phase === 'ok' && event.kind !== 'lost') draft.released ??= event.t
  } else if (event.op === 'lost') draft.lost ??= event.t
  else if (event.op === 'downgrade' && event.phase === 'invoke') draft.downgrading ??= event.t
}

function begin(event: Event, attempt: string): Draft {
  return {
    attempt,
    name: event.name ?? '',
    pid: event.pid,
    client: event.client,
    mode: event.mode ?? 'exclusive',
    permits: event.permits ?? 1,
    of: event.of ?? 1,
    fair: event.fair ?? false,
    wait: event.wait ?? Number.POSITIVE_INFINITY,
    invoked: event.t,
    queued: undefined,
    granted: undefined,
    proven: undefined,
    token: undefined,
    until: undefined,
    downgrading: undefined,
    releasing: undefined,
    released: undefined,
    lost: undefined,
    forced: undefined,
    failed: undefined,
    died: undefined,
    events: [],
  }
}

function proven({ t, until, ttl }: Event): number {
  return until === undefined || ttl === undefined ? t : Math.min(t, until - ttl * 1e6)
}

/** From the decision to kill until the process was seen to be dead. */
interface Kill {
  readonly target: number | undefined
  readonly from: number
  to: number
}

function noteKill(kills: Map<string, Kill>, { attempt = '', phase, target, t }: Event): void {
  const known = kills.get(attempt)
  if (phase === 'invoke') kills.set(attempt, { target, from: t, to: t })
  else if (known !== undefined) known.to = t
}

/**
 * A process may still have acted between the decision to kill it and its end, so it lived at least until its last event. Process ids are
 * reused, clients are not, so only acquisitions begun before the end of the kill are affected.
 */
function markDead(
  drafts: readonly Draft[],
  kills: readonly Kill[],
  lastSeen: ReadonlyMap<string, number>,
): void {
  if (kills.length === 0) return
  const killsOf = groupBy(kills, (kill) => kill.target)
  for (const draft of drafts) {
    const kill = killsOf.get(draft.pid)?.find((kill) => kill.to >= draft.invoked)
    if (kill !== undefined) draft.died = Math.max(kill.from, lastSeen.get(draft.client) ?? 0)
  }
}

const names = new WeakMap<History, ReadonlyMap<string, readonly Acquisition[]>>()

/** The acquisitions of every name, ordered by call. */
export function acquisitionsByName(history: History): ReadonlyMap<string, readonly Acquisition[]> {
  const known = names.get(history) ?? groupBy(history.acquisitions, (one) => one.name)
  names.set(history, known)
  return known
}
