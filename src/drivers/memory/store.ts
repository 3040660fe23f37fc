/**
 * The rows of one `memory()`, and the promises parked on them. All clients made from one factory value share a store, as
 * processes share a server; that is how a test or a simulation has several clients in one process.
 *
 * Each command runs to completion without interruption: the table decides, the store keeps the new row and notifies the granted
 * waiters. Only rows with waiters have a timer, one each; without waiters, an overdue hold concerns no one.
 */
import type { Clock } from '../../core/clock.js'
import type { LockStatus, ReleaseResult } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { LossNotice, type LossSignal } from '../../core/loss-notice.js'
import { type AcquireManyResult, acquireMany as decideTogether, type NamedRequest } from './acquire-many.js'
import { type CellTable, createCellTable } from './cell-table.js'
import { createRowTimers } from './row-timers.js'
import * as table from './table.js'

/** How many idle rows are kept for their memory of ended attempts; of further ones only the token counts, as the floor of new rows. */
const maxIdleRows = 1024

export interface Store {
  readonly clock: Clock
  readonly cells: CellTable
  acquire(name: string, request: table.AcquireRequest): table.AcquireResult
  /** Grants all asks, for different names, in one step, or none. */
  acquireMany(requests: readonly NamedRequest[]): AcquireManyResult
  /** Call it right after the answer `waiting`: the store calls `granted` in the step that grants the attempt. */
  park(attempt: string, granted: (hold: table.Hold) => void): void
  renew(name: string, attempt: string, ttl: number): table.Hold | undefined
  release(name: string, attempt: string, last: number): ReleaseResult
  cancel(name: string, attempt: string): boolean
  downgrade(name: string, attempt: string, last: number): table.Hold | undefined
  forceRelease(name: string): readonly table.Hold[]
  /** Are there waiters? */
  contended(name: string): boolean
  /** Until the attempt ends, `listener` is called whenever others begin to wait for it, and when the hold is force-released. */
  listen(attempt: string, listener: () => void): void
  tellContended(name: string): void
  status(name: string): LockStatus
  statuses(prefix: string): readonly LockStatus[]
  holder(name: string): table.Hold | undefined
  holds(name: string, attempt: string): boolean
  /** Aborts when the hold is force-released; already aborted when there is no such hold. */
  lossSignal(name: string, attempt: string): LossSignal
}

/** @param wallAtStart milliseconds since 1970: tokens begin there and advance with `clock`, which never steps back. */
export function createStore(clock: Clock, wallAtStart: number): Store {
  const rows = new Map<string, table.Row>()
  const parked = new Map<string, (hold: table.Hold) => void>()
  /** Of the watched holds, by attempt. */
  const notices = new Map<string, LossNotice>()
  const listeners = new Map<string, () => void>()
  const timers = createRowTimers(clock, (name) => apply(table.expire, name))
  const wallAtZero = wallAtStart - clock.now()
  const cells = createCellTable(clock, () => wallAtZero + clock.now())
  let floor = 0
  let renewals = 0

  function apply<A>(command: (row: table.Row, now: number, wall: number) => table.Step<A>, name: string): A {
    const now = clock.now()
    const step = command(rows.get(name) ?? table.emptyRow(name, floor), now, wallAtZero + now)
    keep(step.row)
    for (const hold of step.granted) tell(hold)
    return step.answer
  }

  function acquireMany(requests: readonly NamedRequest[]): AcquireManyResult {
    const now = clock.now()
    const findRow = (name: string) => rows.get(name) ?? table.emptyRow(name, floor)
    const answer = decideTogether(findRow, requests, now, wallAtZero + now)
    if (answer.is === 'refused') return answer
    for (const { row } of answer.steps) keep(row)
    for (const { granted } of answer.steps) for (const hold of granted) tell(hold)
    return answer
  }

  function keep(row: table.Row): void {
    const { name } = row
    timers.follow(row)
    if (table.isIdle(row) && rows.size > maxIdleRows) {
      floor = Math.max(floor, row.token)
      rows.delete(name)
    } else rows.set(name, row)
  }

  function holds(name: string, attempt: string): boolean {
    return rows.get(name)?.holds.some((hold) => hold.attempt === attempt) ?? false
  }

  function tell(hold: table.Hold): void {
    const granted = parked.get(hold.attempt)
    parked.delete(hold.attempt)
    granted?.(hold)
  }

  return {
    clock,
    cells,
    acquire: (name, request) => apply((row, now, wall) => table.acquire(row, request, now, wall), name),
    acquireMany,
    park: (attempt, granted) => void parked.set(attempt, granted),
    // In one process nothing arrives twice, or late.
    renew: (name, attempt, ttl) =>
      apply((row, now, wall) => table.renew(row, attempt, ttl, now, wall, ++renewals), name),
    release(name, attempt, last) {
      notices.delete(attempt)
      listeners.delete(attempt)
      return apply((row, now, wall) => table.release(row, attempt, last, now, wall), name)
    },
    cancel(name, attempt) {
      parked.delete(attempt)
      return apply((row, now, wall) => table.cancel(row, attempt, now, wall), name)
    },
    downgrade: (name, attempt, last) =>
      apply((row, now, wall) => table.downgrade(row, attempt, last, now, wall), name),
    forceRelease(name) {
      const forced = apply(table.forceRelease, name)
      for (const { attempt } of forced) {
        notices.get(attempt)?.abort(new BackendError('memory', 'an operator released this hold'))
        notices.delete(attempt)
        listeners.get(attempt)?.()
        listeners.delete(attempt)
      }
      return forced
    },
    contended: (name) => (rows.get(name)?.queue.length ?? 0) > 0,
    listen: (attempt, listener) => void listeners.set(attempt, listener),
    tellContended(name) {
      const [hold] = rows.get(name)?.holds ?? []
      if (hold !== undefined) listeners.get(hold.attempt)?.()
    },
    holder: (name) => rows.get(name)?.holds[0],
    holds,
    lossSignal(name, attempt) {
      const known = notices.get(attempt)
      if (known !== undefined) return known
      const notice = new LossNotice()
      if (holds(name, attempt)) notices.set(attempt, notice)
      else notice.abort(new BackendError('memory', 'this hold has ended'))
      return notice
    },
    status(name) {
      apply(table.expire, name)
      return table.toLockStatus(rows.get(name) ?? table.emptyRow(name, floor), clock.now())
    },
    statuses(prefix) {
      for (const name of [...rows.keys()]) if (name.startsWith(prefix)) apply(table.expire, name)
      const used = [...rows.values()].filter((row) => row.name.startsWith(prefix) && !table.isIdle(row))
      return used.map((row) => table.toLockStatus(row, clock.now()))
    },
  }
}
