/**
 * Elections: the holder of the lock of the name leads, and publishes that in a cell that everybody can watch.
 * Long because queueing, stepping back and taking the office are one state machine.
 *
 * ```
 *   join the queue, with name and priority in the note
 *        │ granted
 *        ▼
 *   is the named successor, or somebody of a higher priority, queued behind me? ──yes──► queue at the end, then release
 *        │ no
 *        ▼
 *   write the office (token, value) ──► Term ──► resign: remove the office, release
 * ```
 * A candidate that is passed over goes to the end of the queue, so the preferred one is at its head after one round
 * at most; until then nobody leads. Where the driver is fair, the candidate is queued again before it releases: otherwise somebody of a lower
 * priority could lead while it is not queued. The office of a crashed leader stays in the cell until
 * the next leader writes its own: whether the old one still leads shows in its hold, which the store has or has not.
 * An office never replaces one with a greater token.
 */
import { EngineLock } from '../core/acquire.js'
import { CellRef } from '../core/cell-ref.js'
import { type Duration, duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError } from '../core/errors.js'
import { checkKnown } from '../core/known-options.js'
import type { HeldLease } from '../core/lease.js'
import { exclusive } from '../core/mode.js'
import { checkName, describe } from '../core/name.js'
import { type AcquireOptions, checkOptions, type Defaults } from '../core/options.js'
import { type Deadline, readOnce, TimedOut, withDeadline } from '../core/with-deadline.js'
import { findCandidate, type IsPresent, parseCandidacy } from './hand-over.js'
import {
  checkCandidate,
  checkValue,
  type Leader,
  type LeaderRecord,
  parseLeaderRecord,
} from './leader-record.js'
import { LeaderTerm, type Term } from './leadership.js'
import { noPermits } from './no-permits.js'

export interface CampaignOptions extends Pick<AcquireOptions, 'signal' | 'ttl' | 'autoRenew' | 'maxHold'> {
  /** Longest time to wait. @default Infinity, unless `election(name, { wait })` sets another */
  readonly wait?: Duration
  /** The name by which others know this candidate, for `handOver`; at most 128 bytes. @default `host:pid` */
  readonly candidate?: string
  /** Of the candidates waiting when a term ends, one with the greatest priority leads next. A whole number. It does not end a term. @default 0 */
  readonly priority?: number
}

export interface Election {
  readonly name: string
  /** Is a term that was won through this very object held now, by the clock? */
  readonly isLeader: boolean
  /**
   * Waits to become the leader. @throws as `Lock.acquire`; RangeError for a bad candidate or priority
   * @param value what everybody can read while this candidate leads: an address, for example. At most some 64 KiB.
   */
  campaign(value: string, options?: CampaignOptions): Promise<Term>
  /** The present leader; undefined: there is none. @throws BackendError when the store does not reply for 10 s */
  leader(): Promise<Leader | undefined>
  /**
   * The present leader, then every new one and every new value, as far as the reader keeps up: of several changes it
   * sees the last. Ends when `signal` aborts, whose reason it throws, or when the loop is left.
   */
  observe(options?: { readonly signal?: AbortSignal }): AsyncIterable<Leader>
}

/** How long the search for a preferred candidate may take, in ms: when the store does not reply, the granted candidate leads. */
const checkTimeout = 2_000

export function election(engine: Engine, name: string, defaults?: Defaults): Election {
  checkName(name)
  const cellRef = new CellRef(engine, 'leader', name)
  const lock = new EngineLock(
    engine,
    name,
    'exclusive',
    noPermits('an election', exclusive),
    engine.resolveDefaults('election()', defaults),
  )
  const terms = new Set<LeaderTerm>()
  const inspect = (bounds: Deadline) => cellRef.retrying(bounds, () => engine.driver.inspect(name))
  const isPresent: IsPresent = async (candidate, except, bounds) =>
    findCandidate(await inspect(bounds), candidate, except)

  async function campaign(value: string, options: CampaignOptions = {}): Promise<Term> {
    checkValue(value)
    checkOptions(options)
    const { candidate = engine.env.client, priority = 0, ...given } = options
    checkCandidate(candidate)
    checkPriority(priority)
    const { signal } = given
    const from = engine.clock.now()
    const wait = duration('wait', given.wait ?? defaults?.wait ?? Number.POSITIVE_INFINITY, 0, true)
    const rest = { ...given, fair: engine.traits.fair, note: `candidate ${candidate}, priority ${priority}` }
    const left = () => ({ ...rest, wait: Math.max(0, wait - (engine.clock.now() - from)) })
    // A candidate that steps back was admitted before.
    const again = () => ({ ...left(), maxPending: Number.POSITIVE_INFINITY })
    let lease = await lock.take(left())
    const stepsAside = () => orRelease(lease, preferred(candidate, priority, signal), signal)
    for (let rounds = 1; await stepsAside(); rounds++) {
      if (wait === 0 || !engine.traits.fair) await lease.release()
      if (wait === 0) throw new AcquireTimeoutError(name, 0, undefined)
      if (engine.traits.fair) lease = await yieldToPriority(lease, again())
      else {
        // Without a FIFO queue the other candidate needs a moment to come first.
        await pause(engine, 20 * rounds * engine.random())
        lease = await lock.take(again())
      }
    }
    return begin(lease, candidate, value, signal)
  }

  /** A lease that the caller does not get is released. */
  async function orRelease<R>(lease: HeldLease, work: Promise<R>, signal?: AbortSignal): Promise<R> {
    try {
      return await work
    } catch (error) {
      const released = lease.release()
      // A candidate that gives up does not wait for a silent store.
      if (signal?.aborted !== true) await released
      throw error
    }
  }

  /** Releases once it is queued at the end: the candidate granted next sees that it waits. */
  async function yieldToPriority(lease: HeldLease, options: AcquireOptions): Promise<HeldLease> {
    let next = Promise.resolve(lease)
    await new Promise<void>((inLine) => {
      next = lock.take(options, ({ error }) => {
        if (error === undefined) inLine()
      })
      const ended = () => inLine()
      next.then(ended, ended)
    })
    await lease.release()
    return next
  }

  /** Is another candidate queued that should lead instead of this one? */
  async function preferred(candidate: string, priority: number, signal?: AbortSignal): Promise<boolean> {
    const within = { wait: checkTimeout, ...(signal && { signal }) }
    const found = await withDeadline(engine, within, async (bounds) => {
      const rivals = (await inspect(bounds)).waiters.map(({ note }) => parseCandidacy(note))
      if (rivals.every((rival) => rival === undefined)) return false
      const next = parseLeaderRecord(await cellRef.read(bounds))?.next
      if (next === candidate) return false
      if (rivals.some((rival) => rival?.candidate === next && next !== undefined)) return true
      return rivals.some((rival) => rival !== undefined && rival.priority > priority)
    })
    return found === true
  }

  async function begin(
    lease: HeldLease,
    candidate: string,
    value: string,
    signal?: AbortSignal,
  ): Promise<Term> {
    const { attempt } = lease.hold.watchdog.claim
    const office: LeaderRecord = { value, token: lease.token, candidate, by: engine.env.client, attempt }
    const term = new LeaderTerm(lease, cellRef, office, isPresent)
    await orRelease(lease, term.publishRecord(signal), signal)
    for (const old of terms) if (!old.isHeld) terms.delete(old)
    terms.add(term)
    return term
  }

  /** Undefined: there is no office, or its hold has ended. */
  async function leading(office: LeaderRecord | undefined, bounds: Deadline): Promise<Leader | undefined> {
    if (office === undefined) return undefined
    const { holders } = await inspect(bounds)
    if (!holders.some((holder) => holder.attempt === office.attempt && holder.expiresIn > 0)) return undefined
    const { value, token, candidate, by } = office
    return { value, token, candidate, client: by }
  }

  function observe(options: { readonly signal?: AbortSignal } = {}): AsyncIterable<Leader> {
    if (typeof options !== 'object' || options === null)
      throw new TypeError(`observe() takes { signal? }, got ${describe(options)}`)
    checkKnown('observe()', options, ['signal'])
    return follow(options)
  }

  async function* follow(options: { readonly signal?: AbortSignal }): AsyncGenerator<Leader, void> {
    const { signal } = options
    let seen = 0
    for (;;) {
      const within = { wait: Number.POSITIVE_INFINITY, ...(signal !== undefined && { signal }) }
      const leader = await withDeadline(engine, within, (bounds) =>
        cellRef.waitUntil(async (cell) => {
          if (cell === undefined || cell.version === seen) return undefined
          const found = await leading(parseLeaderRecord(cell), bounds)
          if (found !== undefined) seen = cell.version
          return found
        }, bounds),
      )
      if (leader !== undefined && !(leader instanceof TimedOut)) yield leader
    }
  }

  return {
    name,
    get isLeader() {
      return [...terms].some((term) => term.isHeld)
    },
    campaign,
    async leader() {
      const look = (bounds: Deadline) =>
        cellRef.read(bounds).then((cell) => leading(parseLeaderRecord(cell), bounds))
      return readOnce(engine, name, look)
    },
    observe,
  }
}

function checkPriority(priority: unknown): void {
  if (Number.isSafeInteger(priority)) return
  throw new RangeError(`priority must be a whole number, got ${describe(priority)}`)
}

function pause({ clock }: Engine, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.at(clock.now() + ms, resolve))
}
