/**
 * A double barrier: no participant proceeds until `parties` have arrived, and none finishes until all have left.
 *
 * ```
 *   round r:  gathering ──the last one comes──► open ──the last one leaves, or all inside are dead──► round r + 1: gathering
 * ```
 * Every participant holds a lease. Whenever a participant arrives or waits, it removes those whose leases have
 * ended, so that the others neither wait for them nor count them. A participant that arrives while a round is open waits for the
 * next one.
 *
 * The rounds are decided in `barrier-state.ts`.
 * Long because entering and leaving are one protocol.
 */

import { CellRef } from '../core/cell-ref.js'
import { duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError, BackendError, unavailable } from '../core/errors.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { checkName, describe, quote } from '../core/name.js'
import { type AcquireOptions, type ParticipantDefaults, resolveTerms, type Terms } from '../core/options.js'
import {
  answered,
  checkWaitOptions,
  type Deadline,
  restOfWait,
  TimedOut,
  type WaitOptions,
  withDeadline,
} from '../core/with-deadline.js'
import { type BarrierState, barrierChange, entered, left, parseBarrier } from './barrier-state.js'
import { beginHold, checkInterval, createMembership, type Membership, whileWaiting } from './membership.js'

export type EnterOptions = Pick<AcquireOptions, 'wait' | 'signal' | 'ttl' | 'autoRenew' | 'maxHold' | 'note'>

export interface Barrier {
  readonly name: string
  readonly parties: number
  /**
   * Waits until `parties` have entered and are alive. `maxHold` and `autoRenew: false` apply from then on.
   * @throws AcquireTimeoutError when they were not within `wait`; LeaseLostError when this participant lost its lease
   * meanwhile; RangeError when others use another number of parties; as `Lock.acquire`
   */
  enter(options?: EnterOptions): Promise<BarrierEntry>
}

/** One participant, between `enter` and `leave`. */
export interface BarrierEntry extends AsyncDisposable {
  /** The lease of this participant: once it is lost, the others no longer wait for it. */
  readonly lease: Lease
  /** Counts how often the barrier was passed; starts from 1 again when nobody came for a day. */
  readonly round: number
  /**
   * Waits until all have left or died; false: they had not within `wait`, but this participant has left.
   * `await using` leaves without waiting. Leaving itself may take a second longer than `wait`.
   * @throws BackendError with code `UNAVAILABLE` when the others could not be notified by then; the reason of `signal`
   */
  leave(options?: WaitOptions): Promise<boolean>
}

const maxParties = 1000
/** How long a participant that did not get in tries to report it, in ms: after that the others find out from its lease. */
const leaveTimeout = 1_000

export function barrier(
  engine: Engine,
  name: string,
  parties: number,
  defaults?: ParticipantDefaults,
): Barrier {
  checkName(name)
  if (!Number.isInteger(parties) || parties < 1 || parties > maxParties) {
    throw new RangeError(
      `parties of barrier ${quote(name)} must be a whole number from 1 to ${maxParties}, got ${describe(parties)}`,
    )
  }
  const terms = engine.resolveParticipantDefaults('barrier()', defaults)
  const cellRef = new CellRef(engine, 'barrier', name)
  const membership = createMembership(cellRef, name, 'a barrier', terms)
  return {
    name,
    parties,
    enter: (options) => enter(engine, cellRef, membership, terms, { name, parties }, options),
  }
}

async function enter(
  engine: Engine,
  cellRef: CellRef,
  membership: Membership,
  terms: Terms,
  { name, parties }: Pick<Barrier, 'name' | 'parties'>,
  options: EnterOptions = {},
): Promise<BarrierEntry> {
  const from = engine.clock.now()
  const own = resolveTerms(engine.driver.name, engine.traits, terms, options)
  const { wait } = own
  const lease = await membership.lock.take({ ...options, ...whileWaiting }).catch((error: unknown) => {
    if (!(error instanceof AcquireTimeoutError)) throw error
    const trouble = error.cause instanceof BackendError ? { error: error.cause } : undefined
    throw new AcquireTimeoutError(name, error.waited, trouble, closed(name, 0, parties))
  })
  const { attempt } = lease.hold.watchdog.claim
  let there = 0
  const come = async (bounds: Deadline) => {
    const cell = await cellRef.update(async (cell) => {
      const state = parseBarrier(cell) ?? { parties, round: 1, open: false, members: [] }
      const members = await membership.alive(state.members, bounds)
      if (state.parties !== parties && members.length > 0) throw otherParties(name, state.parties, parties)
      return barrierChange(cell, entered({ ...state, parties, members }, attempt))
    }, bounds)
    const state = parseBarrier(cell)
    there = state?.members.length ?? 0
    return state?.open && state.members.includes(attempt) ? state.round : undefined
  }
  try {
    const rest = Math.max(0, wait - (engine.clock.now() - from))
    // A lost lease is reported at once, even while the store is silent.
    const bounds = { ...options, wait: rest, also: lease.signal }
    const round = await answered(
      engine,
      name,
      bounds,
      (within) =>
        cellRef.waitUntil(
          () => {
            lease.assertHeld()
            return come(within)
          },
          within,
          checkInterval,
        ),
      restOfWait,
    )
    if (typeof round === 'number') {
      await beginHold(lease, own)
      return createEntry(engine, cellRef, membership, terms, lease, round)
    }
    throw new AcquireTimeoutError(name, engine.clock.now() - from, undefined, closed(name, there, parties))
  } catch (error) {
    await withDeadline(engine, { wait: leaveTimeout }, (bounds) =>
      leaveBarrier(cellRef, membership, attempt, bounds),
    ).catch(() => undefined)
    await lease.release()
    throw error
  }
}

function closed(name: string, there: number, parties: number): string {
  return `barrier ${quote(name)} did not open: ${there} of ${parties} were there`
}

/** Removes this participant and those that have died; the last one begins the next round. */
async function leaveBarrier(
  cellRef: CellRef,
  membership: Membership,
  attempt: string,
  bounds: Deadline,
): Promise<BarrierState | undefined> {
  const cell = await cellRef.update(async (cell) => {
    const state = parseBarrier(cell)
    if (state === undefined) return undefined
    return barrierChange(cell, left(state, attempt, await membership.alive(state.members, bounds)))
  }, bounds)
  return parseBarrier(cell)
}

function createEntry(
  engine: Engine,
  cellRef: CellRef,
  membership: Membership,
  terms: Terms,
  lease: HeldLease,
  round: number,
): BarrierEntry {
  const { attempt } = lease.hold.watchdog.claim
  let leaving: Promise<unknown> | undefined
  const goOut = async (bounds: Deadline) => {
    await leaveBarrier(cellRef, membership, attempt, bounds)
    await lease.release()
  }
  const leaveWithin = async (options: WaitOptions) => {
    const outcome = await withDeadline(engine, options, goOut)
    if (!(outcome instanceof TimedOut)) return
    throw unavailable(engine.driver.name, lease.name, outcome.waited, outcome.error)
  }
  return {
    lease,
    round,
    async leave(options = {}) {
      checkWaitOptions('leave()', options)
      const from = engine.clock.now()
      const wait = duration('wait', options.wait ?? terms.wait, 0, true)
      // However short the wait, a participant that reports it has left must have left: the others would wait for it,
      // and so would the next round.
      leaving ??= leaveWithin({ ...options, wait: Math.max(wait, leaveTimeout) }).catch((error: unknown) => {
        leaving = undefined
        throw error
      })
      await leaving
      const rest = { ...options, wait: Math.max(0, wait - (engine.clock.now() - from)) }
      const over = await answered(
        engine,
        lease.name,
        rest,
        (bounds) =>
          cellRef.waitUntil(
            async (cell) => {
              const state = parseBarrier(cell)
              if (state === undefined || state.round !== round) return true
              if ((await membership.alive(state.members, bounds)).length > 0) return undefined
              // The others have died. Ends the round, so that the store forgets the barrier in time.
              await leaveBarrier(cellRef, membership, attempt, bounds)
              return true
            },
            bounds,
            checkInterval,
          ),
        restOfWait,
      )
      return over === true
    },
    async [Symbol.asyncDispose]() {
      leaving ??= withDeadline(engine, { wait: leaveTimeout }, goOut).catch(() => undefined)
      await leaving
      await lease.release()
    },
  }
}

function otherParties(name: string, theirs: number, ours: number): RangeError {
  return new RangeError(
    `barrier ${quote(name)} has ${theirs} parties for its current users, got ${ours}; use the same number everywhere, or another name`,
  )
}
