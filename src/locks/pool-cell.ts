/**
 * The cell of one pool, which all its users share, and the lock whose shared leases prove holders and waiters alive.
 * Every change of the cell removes those that have died and grants from the head of the queue, as `pool-state.ts` decides.
 */
import type { Cell } from '../core/cell.js'
import type { CellRef } from '../core/cell-ref.js'
import type { Deadline } from '../core/with-deadline.js'
import { checkInterval, type Membership } from './membership.js'
import {
  grantFromHead,
  holdersOfClosed,
  type PoolEntry,
  type PoolState,
  parsePool,
  withoutEntry,
} from './pool-state.js'

/** The next state; undefined: it stays as it is. `kept` is false where the store keeps nothing of the pool yet. */
type Change = (state: PoolState, kept: boolean) => PoolState | undefined

export class PoolCell {
  readonly cellRef: CellRef
  readonly membership: Membership
  readonly #firstSize: number

  /** @param firstSize the number of permits where none has been set before */
  constructor(cellRef: CellRef, membership: Membership, firstSize: number) {
    this.cellRef = cellRef
    this.membership = membership
    this.#firstSize = firstSize
  }

  /** Resolves with the resulting cell. */
  change(bounds: Deadline, act: Change): Promise<Cell | undefined> {
    return this.cellRef.update(async (cell) => {
      const state = parsePool(cell) ?? { size: this.#firstSize, line: [] }
      const next = act({ ...state, line: await this.#alive(state.line, bounds) }, cell !== undefined)
      const value = next && JSON.stringify(grantFromHead(next))
      return value === undefined || value === cell?.value
        ? undefined
        : { value, keep: Number.POSITIVE_INFINITY }
    }, bounds)
  }

  /** Removes a queue entry. The queue may have been deleted once the lease was released. */
  leave(attempt: string, bounds: Deadline): Promise<Cell | undefined> {
    return this.change(bounds, (state, kept) => (kept ? withoutEntry(state, attempt) : undefined))
  }

  /** Waits until a closed pool has all its permits back. Undefined: there was time for one read only, and it has not. */
  untilDrained(bounds: Deadline): Promise<'drained' | 'opened' | undefined> {
    return this.cellRef.waitUntil((cell) => this.#drained(cell, bounds), bounds, checkInterval)
  }

  async #drained(cell: Cell | undefined, bounds: Deadline): Promise<'drained' | 'opened' | undefined> {
    const before = holdersOfClosed(cell)
    if (before === undefined || before.length === 0) return before === undefined ? 'opened' : 'drained'
    if ((await this.#alive(before, bounds)).length > 0) return undefined
    // Others may have been granted permits before the last of these left: remove these from the current state.
    const after = holdersOfClosed(await this.change(bounds, (state, kept) => (kept ? state : undefined)))
    if (after === undefined) return 'opened'
    return after.length === 0 ? 'drained' : undefined
  }

  /** Removes the cell. False, and nothing changed: somebody holds permits or waits. */
  async delete(bounds: Deadline): Promise<boolean> {
    let inUse = false
    await this.cellRef.update(async (cell) => {
      const state = parsePool(cell)
      if (state === undefined) return undefined
      inUse = (await this.#alive(state.line, bounds)).length > 0
      return inUse ? undefined : { value: undefined, keep: 0 }
    }, bounds)
    return !inUse
  }

  async size(bounds: Deadline): Promise<number> {
    return parsePool(await this.cellRef.read(bounds))?.size ?? this.#firstSize
  }

  /** The entries of those that have not died. */
  async #alive(line: readonly PoolEntry[], bounds: Deadline): Promise<readonly PoolEntry[]> {
    const attempts = line.map(({ attempt }) => attempt)
    const alive = new Set(await this.membership.alive(attempts, bounds))
    return line.filter(({ attempt }) => alive.has(attempt))
  }
}
