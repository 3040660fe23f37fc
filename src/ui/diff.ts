/** What happened between two samples of a store. Pure: a table can test it. */
import type { Holder, LockStatus, Mode, Waiter } from 'holdfast'
import { type Entry, type GaveUp, type Hold, mostWaiters, type Past, type Waiting } from './wire.js'

export interface Sample {
  /** When it was read, ms since 1970. */
  readonly at: number
  readonly standings: readonly LockStatus[]
  /** The names that were asked about; absent: all. A name outside is as it was. */
  readonly only?: ReadonlySet<string>
  /** Nobody looked for a long time before. */
  readonly blind?: boolean
}

/** A release by force from this page. */
export interface Forced {
  readonly attempts: readonly string[]
  readonly why: string
}

export interface Step {
  readonly entries: ReadonlyMap<string, Entry>
  readonly changed: readonly Entry[]
  readonly gone: readonly string[]
  readonly past: readonly Past[]
  readonly gaveUp: readonly GaveUp[]
}

/** Two readings of one deadline differ by the round trip; only more than this is a renewal. In ms. */
const jitter = 300

export function step(
  before: ReadonlyMap<string, Entry>,
  sample: Sample,
  forced: ReadonlyMap<string, Forced> = new Map(),
): Step {
  const { at, standings, only } = sample
  const entries = new Map(before)
  const changed: Entry[] = []
  const gone: string[] = []
  const past: Past[] = []
  const gaveUp: GaveUp[] = []
  const present = new Set<string>()
  for (const standing of standings) {
    const { name, holders, waiters } = standing
    if (holders.length + waiters.length === 0) continue
    present.add(name)
    const old = before.get(name)
    const entry = entryOf(standing, old, at)
    entries.set(name, entry)
    if (old === undefined || differs(old, entry)) changed.push(entry)
    if (old !== undefined) over(old, entry, standing, sample, forced.get(name), past, gaveUp)
  }
  for (const [name, old] of before) {
    if (present.has(name) || only?.has(name) === false) continue
    entries.delete(name)
    gone.push(name)
    over(old, undefined, undefined, sample, forced.get(name), past, gaveUp)
  }
  return { entries, changed, gone, past, gaveUp }
}

function entryOf(
  { name, holders, waiters, unlisted = 0 }: LockStatus,
  old: Entry | undefined,
  at: number,
): Entry {
  return {
    name,
    at,
    holders: holders.map((holder) => holdOf(holder, old, at)),
    waiters: waiters.slice(0, mostWaiters).map((waiter) => waitingOf(waiter, old, at)),
    waiting: waiters.length + unlisted,
  }
}

function holdOf(
  { attempt, mode, token, heldFor, expiresIn, client, note }: Holder,
  old: Entry | undefined,
  at: number,
): Hold {
  const known = old?.holders.find((hold) => hold.attempt === attempt && hold.token === token)
  const since = known?.since ?? at - heldFor
  const deadline = expiresIn === Number.POSITIVE_INFINITY ? null : at + expiresIn
  const waiter = old?.waiters.find((one) => one.attempt === attempt)
  const waited = known?.waited ?? (waiter && Math.max(0, since - waiter.since))
  return {
    attempt,
    mode: modeText(mode),
    token,
    since,
    until: steady(known?.until, deadline),
    ...(waited !== undefined && { waited }),
    ...(client !== undefined && { client }),
    ...(note !== undefined && { note }),
  }
}

function steady(known: number | null | undefined, deadline: number | null): number | null {
  if (known === undefined || known === null || deadline === null) return deadline
  return Math.abs(known - deadline) < jitter ? known : deadline
}

function waitingOf(
  { attempt, mode, waitedFor, client, note }: Waiter,
  old: Entry | undefined,
  at: number,
): Waiting {
  const known = old?.waiters.find((one) => one.attempt === attempt)
  return {
    attempt,
    mode: modeText(mode),
    since: known?.since ?? at - waitedFor,
    ...(client !== undefined && { client }),
    ...(note !== undefined && { note }),
  }
}

export function modeText(mode: Mode): string {
  return mode.kind === 'permits' ? `${mode.take} of ${mode.of}` : mode.kind
}

function differs(a: Entry, b: Entry): boolean {
  return (
    a.waiting !== b.waiting ||
    a.holders.length !== b.holders.length ||
    a.waiters.length !== b.waiters.length ||
    a.holders.some((hold, i) => {
      const other = b.holders[i]
      return hold.attempt !== other?.attempt || hold.token !== other.token || hold.until !== other.until
    }) ||
    a.waiters.some((waiter, i) => waiter.attempt !== b.waiters[i]?.attempt)
  )
}

/** Adds what ended: holds of `old` that are gone, and waiters that are neither waiting nor holding. */
function over(
  old: Entry,
  entry: Entry | undefined,
  standing: LockStatus | undefined,
  { at, blind = false }: Sample,
  forced: Forced | undefined,
  past: Past[],
  gaveUp: GaveUp[],
): void {
  const { name } = old
  const holds = new Set(entry?.holders.map(idOf))
  for (const hold of old.holders) {
    if (holds.has(idOf(hold))) continue
    const { until, ...rest } = hold
    const why = forced?.attempts.includes(hold.attempt) ? forced.why : undefined
    const end = why !== undefined ? 'forced' : blind ? 'unseen' : ranOut(hold, old.at, at) ? 'lost' : 'ended'
    const later = entry?.holders.filter((one) => took(one, hold, old)).map(({ since }) => since) ?? []
    const upper = end === 'unseen' ? old.at : Math.min(at, until ?? at, ...later)
    const to = Math.max(hold.since, upper)
    past.push({ ...rest, name, to, end, ...(why !== undefined && { why }) })
  }
  if (entry === undefined || !sameExclusive(old, entry)) return
  // If the queue is longer than the store's list, nothing is known about the waiters behind.
  if ((standing?.unlisted ?? 0) > 0) return
  const here = new Set(standing?.waiters.map((one) => one.attempt))
  for (const waiter of old.waiters)
    if (!here.has(waiter.attempt)) gaveUp.push({ name, at, waited: Math.max(0, at - waiter.since) })
}

/** One holder all the time: nobody else can have been granted the lock, so any waiter that left the queue gave up. */
function sameExclusive(old: Entry, entry: Entry): boolean {
  const [hold] = old.holders
  return hold?.mode === 'exclusive' && entry.holders.some((one) => idOf(one) === idOf(hold))
}

/** A hand-over is one step of the store: `hold` ended when the next one began. Others that share the lock tell that only if they came later. */
function took(next: Hold, hold: Hold, old: Entry): boolean {
  if (hold.mode === 'exclusive') return next.since >= hold.since
  return next.since > old.at
}

const idOf = (hold: Hold) => `${hold.attempt} ${hold.token}`

/**
 * Did its time run out? Its deadline has passed, and the last sample found it late: a living holder renews when a third of its time has
 * gone, so one with less than half of it left has missed a renewal.
 */
function ranOut({ since, until }: Hold, seen: number, at: number): boolean {
  if (until === null || until > at) return false
  const left = until - seen
  return left <= 0 || left < (until - since) / 2
}
