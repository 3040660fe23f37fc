/**
 * A latch: closed while it counts above zero or somebody who joined is at work; then open for everybody who waits.
 *
 * A count is a promise that nobody keeps for the dead. So who works for the latch may `join` it with a lease instead of being
 * counted: it no longer holds the latch closed once it leaves, or dies.
 */
import { type Bounds, bounded, glance, Late, type WaitOptions } from '../core/bounded.js'
import { Box } from '../core/box.js'
import type { Cell } from '../core/cell.js'
import type { Engine } from '../core/engine.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { checkName, describe, quote } from '../core/name.js'
import { type AcquireOptions, checkOptions, duration } from '../core/options.js'
import { lookEvery, rollOf } from './roll.js'

export interface LatchOptions {
  /** How long it stays open for those who come late, in ms; then it is as if it had never been. @default 86_400_000, a day */
  readonly keep?: number
}

export type JoinOptions = Pick<AcquireOptions, 'wait' | 'signal' | 'ttl' | 'autoRenew' | 'maxHold' | 'note'>

export interface Latch {
  readonly name: string
  /**
   * Closes it with this count. Resolves with false, and changes nothing, when it is closed already. A process that died before its
   * `countDown` leaves it closed: work that may crash is for `join`. @throws RangeError unless `count` is a whole number from 1
   */
  setCount(count: number, options?: LatchOptions): Promise<boolean>
  /** Counts down, not below zero. Resolves with the count that is left, without those who joined. @throws RangeError when it has no count */
  countDown(by?: number): Promise<number>
  /** What still holds it closed: the count, and those who joined and live. 0: it is open. */
  count(): Promise<number>
  /**
   * Holds it closed until the lease is released or lost. @throws RangeError when it is not closed; UnsupportedError when
   * the driver has no shared mode; as `Lock.acquire`
   */
  join(options?: JoinOptions): Promise<Lease>
  /**
   * Waits until it is open; false: it was not, within `wait`. One that was never closed is waited for, too.
   * @throws BackendError when the time was over and the store did not answer; the reason of `signal`
   */
  wait(options?: WaitOptions): Promise<boolean>
}

/** In the cell, as JSON. */
interface State {
  readonly count: number
  /** Attempts of those who joined. */
  readonly members: readonly string[]
  /** The latest changes, so that one whose answer was lost is not carried out twice. */
  readonly done: readonly string[]
  readonly keep: number
}

const changesKnown = 64
const most = 1_000_000_000

export function latch(engine: Engine, name: string): Latch {
  checkName(name)
  const box = new Box(engine, 'latch', name)
  const change = (decide: (state: State | undefined, bounds: Bounds) => Promise<State | undefined>) =>
    glance(engine, name, async (bounds) => {
      const id = engine.env.id()
      const cell = await box.update(async (cell) => {
        const state = stateIn(cell)
        if (state?.done.includes(id) === true) return undefined
        const next = await decide(state, bounds)
        if (next === undefined) return undefined
        const open = next.count === 0 && next.members.length === 0
        const value = JSON.stringify({ ...next, done: [...next.done, id].slice(-changesKnown) })
        return { value, keep: open ? next.keep : Number.POSITIVE_INFINITY }
      }, bounds)
      return stateIn(cell)
    })
  const living = (state: State, bounds: Bounds) =>
    state.members.length === 0 ? [] : rollOf(box, name, 'a latch').living(state.members, bounds)
  const heldBy = async (state: State, bounds: Bounds) => state.count + (await living(state, bounds)).length

  async function join(options?: JoinOptions): Promise<Lease> {
    const lease: HeldLease = await rollOf(box, name, 'a latch').lock.take(options)
    const { attempt } = lease.hold.watchdog.claim
    try {
      await change(async (state, bounds) => {
        if (state === undefined || (await heldBy(state, bounds)) === 0) throw notClosed(name)
        return { ...state, members: [...(await living(state, bounds)), attempt] }
      })
    } catch (error) {
      await lease.release()
      throw error
    }
    // Released first: from then on nobody counts it, whatever becomes of the cell.
    const leave = lease.release.bind(lease)
    lease.release = async () => {
      const outcome = await leave()
      const without = (members: readonly string[]) => members.filter((one) => one !== attempt)
      await change(async (state) =>
        state?.members.includes(attempt) ? { ...state, members: without(state.members) } : undefined,
      ).catch(() => undefined)
      return outcome
    }
    return lease
  }

  return {
    name,
    async setCount(count, options = {}) {
      checkOptions(options, ['keep'])
      const { keep = 86_400_000 } = options
      whole('count', count, most)
      duration('keep', keep, 0, true)
      let closed = false
      await change(async (state, bounds) => {
        closed = state === undefined || (await heldBy(state, bounds)) === 0
        return closed ? { count, members: [], done: state?.done ?? [], keep } : undefined
      })
      return closed
    },
    async countDown(by = 1) {
      whole('by', by, most)
      const state = await change(async (state) => {
        if (state === undefined) throw notClosed(name)
        return state.count === 0 ? undefined : { ...state, count: Math.max(0, state.count - by) }
      })
      return state?.count ?? 0
    },
    count: () =>
      glance(engine, name, async (bounds) => {
        const state = stateIn(await box.read(bounds))
        return state === undefined ? 0 : heldBy(state, bounds)
      }),
    join,
    async wait(options = {}) {
      const found = await bounded(engine, options, (bounds) =>
        box.when(
          async (cell) => {
            const state = stateIn(cell)
            return state !== undefined && (await heldBy(state, bounds)) === 0 ? true : undefined
          },
          bounds,
          lookEvery,
        ),
      )
      if (found instanceof Late && found.trouble !== undefined) throw found.trouble
      return found === true
    },
  }
}

function stateIn(cell: Cell | undefined): State | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as State)
}

function notClosed(name: string): RangeError {
  return new RangeError(`latch ${quote(name)} is not closed; setCount() closes it`)
}

function whole(what: string, value: unknown, most: number): void {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < 1 || value > most)
    throw new RangeError(`${what} must be a whole number from 1 to ${most}, got ${value}`)
}
