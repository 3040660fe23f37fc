/**
 * A latch: closed while its count is above zero or somebody who joined is at work; then open for all waiters.
 *
 * A count is not tied to a session: the crash of a worker does not count it down. So a worker may `join` the latch with a lease instead
 * of being counted: it no longer holds the latch closed once it leaves or dies.
 *
 * Long because every change of the state, and what waiters make of it, are read together.
 */

import type { Cell } from '../core/cell.js'
import { CellRef } from '../core/cell-ref.js'
import { type Duration, duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { LatchGoneError } from '../core/errors.js'
import { checkKnown } from '../core/known-options.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { checkName, describe, quote } from '../core/name.js'
import { type AcquireOptions, checkOptions, type ParticipantDefaults } from '../core/options.js'
import {
  answered,
  checkWaitOptions,
  type Deadline,
  readOnce,
  type WaitOptions,
} from '../core/with-deadline.js'
import { checkInterval, createMembership } from './membership.js'

export interface LatchOptions {
  /**
   * How long it stays open for latecomers, in ms; then it is as if it had never existed. At least some seconds, so that waiters see it.
   * If the last one who joined crashed, it counts from when somebody next waits for it, counts or joins it.
   * @default 86_400_000, a day
   */
  readonly keep?: Duration
}

export type JoinOptions = Pick<AcquireOptions, 'wait' | 'signal' | 'ttl' | 'autoRenew' | 'maxHold' | 'note'>

export interface Latch {
  readonly name: string
  /**
   * Closes it with this count. Resolves with false, and changes nothing, when already closed. A process that crashes before its
   * `countDown` leaves it closed: use `join` for work that may crash. @throws RangeError unless `count` is a whole number from 1
   */
  setCount(count: number, options?: LatchOptions): Promise<boolean>
  /** Counts down, not below zero. Resolves with the remaining count, without those who joined. @throws RangeError when it has no count */
  countDown(by?: number): Promise<number>
  /** What still holds it closed: the count, plus those who joined and are alive. 0: it is open. */
  count(): Promise<number>
  /**
   * Holds it closed until the lease is released or lost. @throws RangeError when it is not closed; UnsupportedError when
   * the driver has no shared mode; as `Lock.acquire`
   */
  join(options?: JoinOptions): Promise<Lease>
  /**
   * Waits until it is open; false: it was not, within `wait`. Also waits for a latch that was never closed.
   * @throws LatchGoneError when it is deleted meanwhile; BackendError when the time was over and the store did not reply; the
   * reason of `signal`
   */
  wait(options?: WaitOptions): Promise<boolean>
  /**
   * Removes all that the store keeps of it, open or closed: then it is as if it had never existed. Waiters in any process are rejected
   * with `LatchGoneError`, because nobody would open it any more; those who joined keep their leases. A latch set again at the same
   * time is not deleted. Resolves with false when there was none. An open latch needs no deletion: it goes by itself after `keep`.
   * @throws BackendError
   */
  delete(): Promise<boolean>
}

/** The value of the cell, as JSON. */
interface State {
  readonly count: number
  /** Attempts of those who joined. */
  readonly members: readonly string[]
  /** The latest changes, so that a change whose reply was lost is not carried out twice. */
  readonly done: readonly string[]
  readonly keep: number
  /** Identifies its first closing: another one after a deletion. */
  readonly born: string
  /** How often it was closed since; each closing but the latest has opened. So a waiter knows for which of them it waited. */
  readonly closings: number
}

/** The next state; undefined: it stays as it is. */
type Decide = (state: State | undefined, bounds: Deadline) => Promise<State | undefined>

const removed = { value: undefined, keep: 0 }
const maxChanges = 64
const most = 1_000_000_000

export function latch(engine: Engine, name: string, defaults?: ParticipantDefaults): Latch {
  checkName(name)
  const terms = engine.resolveParticipantDefaults('latch()', defaults)
  const cellRef = new CellRef(engine, 'latch', name)
  const update = async (decide: Decide, bounds: Deadline) => {
    const id = engine.env.id()
    const cell = await cellRef.update(async (cell) => {
      const state = parseState(cell)
      if (state?.done.includes(id) === true) return undefined
      const next = await decide(state, bounds)
      if (next === undefined) return undefined
      const value = JSON.stringify({ ...next, done: [...next.done, id].slice(-maxChanges) })
      return { value, keep: heldBy(next) === 0 ? next.keep : Number.POSITIVE_INFINITY }
    }, bounds)
    return parseState(cell)
  }
  const change = (decide: Decide) => readOnce(engine, name, (bounds) => update(decide, bounds))
  // Only join() needs a shared mode.
  const membership = () => createMembership(cellRef, name, 'a latch', terms)
  /** The state without those who have died. */
  const alive = async (state: State, bounds: Deadline): Promise<State> =>
    state.members.length === 0
      ? state
      : { ...state, members: await membership().alive(state.members, bounds) }
  /**
   * Removes those that have died. Its write is the proof: if another joined before the last one left, "nobody is left"
   * is true of an older state only, which can no longer be written.
   */
  const strike: Decide = async (state, bounds) => {
    if (state === undefined) return undefined
    const now = await alive(state, bounds)
    return now.members.length === state.members.length ? undefined : now
  }

  async function join(options?: JoinOptions): Promise<Lease> {
    const lease: HeldLease = await membership().lock.take(options)
    const { attempt } = lease.hold.watchdog.claim
    try {
      const joined = await change(async (state, bounds) => {
        if (state === undefined) return undefined
        const now = await alive(state, bounds)
        if (heldBy(now) > 0) return { ...now, members: [...now.members, attempt] }
        return state.members.length > 0 ? now : undefined
      })
      if (joined?.members.includes(attempt) !== true) throw notClosed(name)
    } catch (error) {
      await lease.release()
      throw error
    }
    // Released first: from then on it is not counted, whatever happens to the cell.
    const leave = lease.release.bind(lease)
    lease.release = async () => {
      const outcome = await leave()
      await change(async (state, bounds) => {
        if (state?.members.includes(attempt) !== true) return undefined
        const now = await alive(state, bounds)
        return { ...now, members: now.members.filter((one) => one !== attempt) }
      }).catch(() => undefined)
      return outcome
    }
    return lease
  }

  return {
    name,
    async setCount(count, options = {}) {
      checkOptions(options, ['keep'])
      checkKnown('setCount()', options, ['keep'])
      whole('count', count, most)
      const keep = duration('keep', options.keep ?? 86_400_000, 0, true)
      let closed = false
      const id = engine.env.id()
      await change(async (state, bounds) => {
        closed = state === undefined || heldBy(await alive(state, bounds)) === 0
        if (!closed) return undefined
        const { born = id, closings = 0, done = [] } = state ?? {}
        return { count, members: [], done, keep, born, closings: closings + 1 }
      })
      return closed
    },
    async countDown(by = 1) {
      whole('by', by, most)
      const state = await change(async (state, bounds) => {
        if (state === undefined) throw notClosed(name)
        if (state.count === 0) return strike(state, bounds)
        return { ...(await alive(state, bounds)), count: Math.max(0, state.count - by) }
      })
      return state?.count ?? 0
    },
    async count() {
      const state = await change(strike)
      return state === undefined ? 0 : heldBy(state)
    },
    join,
    async wait(options) {
      const given = checkWaitOptions('wait()', options)
      const within = { ...given, wait: given.wait ?? terms.wait }
      let seen: State | undefined
      const isOpen = async (state: State | undefined, bounds: Deadline): Promise<boolean> => {
        if (seen !== undefined && state?.born !== seen.born) throw new LatchGoneError(name)
        if (seen !== undefined && state?.closings !== seen.closings) return true
        seen = state
        if (state === undefined || state.count > 0) return false
        if (state.members.length === 0) return true
        if ((await alive(state, bounds)).members.length > 0) return false
        return isOpen(await update(strike, bounds), bounds)
      }
      const found = await answered(engine, name, within, (bounds) =>
        cellRef.waitUntil(
          async (cell) => (await isOpen(parseState(cell), bounds)) || undefined,
          bounds,
          checkInterval,
        ),
      )
      return found === true
    },
    async delete() {
      let first: State | undefined
      await readOnce(engine, name, (bounds) =>
        cellRef.update((cell) => {
          const state = parseState(cell)
          first ??= state
          const isFirst = state?.born === first?.born && state?.closings === first?.closings
          return state !== undefined && isFirst ? removed : undefined
        }, bounds),
      )
      return first !== undefined
    },
  }
}

function parseState(cell: Cell | undefined): State | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as State)
}

/** What holds it closed, if all its members are alive. */
function heldBy({ count, members }: State): number {
  return count + members.length
}

function notClosed(name: string): RangeError {
  return new RangeError(`latch ${quote(name)} is not closed; setCount() closes it`)
}

function whole(what: string, value: unknown, most: number): void {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < 1 || value > most)
    throw new RangeError(`${what} must be a whole number from 1 to ${most}, got ${value}`)
}
