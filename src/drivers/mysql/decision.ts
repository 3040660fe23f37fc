/**
 * What a look at a lock's row shows, and what follows from it for a claim. No I/O.
 *
 * Long because the row and what follows from it are read together.
 */
import type { Claim, Holder, LockStatus, Waiter } from '../../core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'
import { number, text, type Value } from './client.js'
import { letters, type Precondition, permitCount, permitLimit } from './sql.js'

/** A holder beside others. Times in µs by the server's clock. */
export interface SharedHold {
  readonly attempt: string
  readonly take: number
  readonly token: number
  readonly since: number
  readonly until: number
  readonly by: string
  readonly note: string
  /** As stored in the row. */
  readonly entry: string
}

export interface Row {
  readonly now: number
  readonly kind: string
  readonly owner: string
  readonly until: number
  readonly token: number
  readonly top: number
  readonly version: number
  /** In ms. */
  readonly ttl: number
  readonly since: number
  readonly sharedHolds: readonly SharedHold[]
  readonly permits: number
  readonly queueUntil: number
  readonly by: string
  readonly note: string
  /** Held by a session whose connection has ended. */
  readonly orphaned: boolean
}

export function parseRow(values: readonly Value[]): Row {
  const [
    now,
    kind,
    owner,
    until,
    token,
    top,
    version,
    ttl,
    since,
    sharers,
    ,
    of,
    lineUntil,
    by,
    note,
    orphaned,
  ] = values
  return {
    now: number(now),
    kind: text(kind),
    owner: text(owner),
    until: number(until),
    token: number(token),
    top: number(top),
    version: number(version),
    ttl: number(ttl) / 1000,
    since: number(since),
    sharedHolds: parseSharedHolds(text(sharers)),
    permits: number(of),
    queueUntil: number(lineUntil),
    by: text(by),
    note: text(note),
    orphaned: number(orphaned) === 1,
  }
}

function parseSharedHolds(json: string): readonly SharedHold[] {
  if (json === '') return []
  return Object.entries(JSON.parse(json) as Record<string, string>).map(([attempt, entry]) => {
    const [take, token, since, until, , by = '-', note = '-'] = entry.split(' ')
    return {
      attempt,
      take: Number(take),
      token: Number(token),
      since: Number(since),
      until: Number(until),
      by: decoded(by),
      note: decoded(note),
      entry,
    }
  })
}

const decoded = (word: string) => (word === '-' ? '' : decodeURIComponent(word))

export type Decision =
  /** The claim already holds, until `left` ms from now. */
  | { readonly is: 'mine'; readonly token: number; readonly left: number; readonly since: number }
  | { readonly is: 'take'; readonly guard: Precondition }
  /** A semaphore of this name is in use with a different limit. */
  | { readonly is: 'limit'; readonly limit: number }
  /** `left`: ms until another look may be worthwhile. */
  | { readonly is: 'busy'; readonly holder: Holder | undefined; readonly left: number }

/** What a look shows besides the row. */
export interface QueueView {
  /** How many waiters are ahead in the queue. */
  readonly ahead: number
  /** How many permits those waiters wait for. */
  readonly wanted: number
  /** True if the claim is itself queued. */
  readonly queued: boolean
  /** True for a single attempt, which blocks nobody. */
  readonly once: boolean
  /** How long the row has not changed, in ms by the clock of this process. */
  readonly unchangedFor: number
}

export function decide(
  row: Row,
  claim: Claim,
  { ahead, wanted, queued, once, unchangedFor }: QueueView,
): Decision {
  const mine = ownHold(row, claim)
  if (mine !== undefined) return mine
  // No hold was proven for longer than the longest ttl, measured here: so every hold is over, whatever a clock that was put
  // back says. Without this, a jump of an hour would keep the lock of a dead process for an hour.
  const over = row.kind !== 'g' && unchangedFor > row.ttl + 50
  const held = over ? [] : toHolders(row)
  const beside = over ? [] : row.sharedHolds.filter(({ until }) => until > row.now)
  const { mode } = claim
  const { kind } = row
  const [first] = held
  const least = Math.min(...held.map(({ expiresIn }) => expiresIn))
  // Queued waiters find out by themselves, a little later, that there is room. A try for permits that leaves enough for all of
  // them overtakes nobody, unless the claim asks for strict order.
  const besideQueue = ahead > 0 && once && !claim.fair && mode.kind === 'permits'
  const fits = (taken: number) =>
    mode.kind !== 'permits' || taken + (besideQueue ? wanted : 0) + permitCount(mode) <= permitLimit(mode)
  if (ahead > 0 && !(besideQueue && fits(0))) return { is: 'busy', holder: first, left: least }
  const queueUntil = queued ? undefined : row.queueUntil
  const alone: Precondition = {
    is: 'unchanged',
    version: row.version,
    beside: '{}',
    taken: 0,
    until: 0,
    queueUntil,
    besideQueue,
  }
  if (held.length === 0) return { is: 'take', guard: alone }
  if (mode.kind === 'permits' && kind === 'p' && row.permits !== mode.of)
    return { is: 'limit', limit: row.permits }
  const taken = beside.reduce((sum, { take }) => sum + take, 0)
  const joins = mode.kind !== 'exclusive' && kind === letters[mode.kind] && fits(taken)
  if (!joins) return { is: 'busy', holder: first, left: least }
  const entries = Object.fromEntries(beside.map(({ attempt, entry }) => [attempt, entry]))
  const until = Math.max(0, ...beside.map((one) => one.until))
  return { is: 'take', guard: { ...alone, beside: JSON.stringify(entries), taken, until } }
}

/**
 * Readers and permits come and go beside each other and change the row: if its content suffices to decide, the row may have changed since.
 */
export function toPrecondition(row: Row, { mode }: Claim, seen: Precondition): Precondition {
  if (row.queueUntil > row.now) return seen
  const first: Precondition = { is: 'first' }
  if (row.until <= row.now) return first
  if (row.kind !== letters[mode.kind] || mode.kind === 'exclusive') return seen
  const taken = row.sharedHolds.reduce((sum, { take }) => sum + take, 0)
  return mode.kind === 'shared' || taken + mode.take <= mode.of ? first : seen
}

function ownHold(row: Row, { attempt, mode }: Claim): Decision | undefined {
  const one = row.sharedHolds.find((sharer) => sharer.attempt === attempt)
  if (mode.kind !== 'exclusive') {
    if (one === undefined || one.until <= row.now) return undefined
    return { is: 'mine', token: one.token, left: (one.until - row.now) / 1000, since: one.since }
  }
  if (row.owner !== attempt || row.kind !== 'x' || row.until <= row.now) return undefined
  return { is: 'mine', token: row.token, left: (row.until - row.now) / 1000, since: row.since }
}

const parseMode = (kind: string, take: number, of: number): Mode =>
  kind === 's' ? shared : kind === 'p' ? permits(take, of) : exclusive

const withNote = (by: string, note: string) => ({
  ...(by !== '' && { client: by }),
  ...(note !== '' && { note }),
})

/** The present holders. */
export function toHolders(row: Row): readonly Holder[] {
  const { now, kind, owner, until, token, since, by, note } = row
  if (kind === 'x' || kind === 'g') {
    if (owner === '' || until <= now || row.orphaned) return []
    const expiresIn = kind === 'g' ? Number.POSITIVE_INFINITY : (until - now) / 1000
    return [
      {
        attempt: owner,
        mode: exclusive,
        token,
        heldFor: Math.max(0, (now - since) / 1000),
        expiresIn,
        ...withNote(by, note),
      },
    ]
  }
  if (kind === '-') return []
  return row.sharedHolds
    .filter((one) => one.until > now)
    .map((one) => ({
      attempt: one.attempt,
      mode: parseMode(kind, one.take, row.permits),
      token: one.token,
      heldFor: Math.max(0, (now - one.since) / 1000),
      expiresIn: (one.until - now) / 1000,
      ...withNote(one.by, one.note),
    }))
}

/** @param rest the rows of `line()` for this name */
export function toLockStatus(
  name: string,
  row: Row | undefined,
  rest: readonly (readonly Value[])[],
): LockStatus {
  const holders = row === undefined ? [] : toHolders(row)
  const in_ = new Set(holders.map(({ attempt }) => attempt))
  const waiters = rest.map(toWaiter).filter(({ attempt }) => !in_.has(attempt))
  return { name, holders, waiters, lastToken: row === undefined ? 0 : row.token }
}

function toWaiter([now, , attempt, kind, take, of, since, by, note]: readonly Value[]): Waiter {
  return {
    attempt: text(attempt),
    mode: parseMode(text(kind), number(take), number(of)),
    waitedFor: Math.max(0, (number(now) - number(since)) / 1000),
    ...withNote(text(by), text(note)),
  }
}
