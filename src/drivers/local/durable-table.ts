/**
 * The broker's rows and the journal behind them. The table decides a command, the journal records it, and only then it is in
 * force: a grant that cannot be written is refused, with the reason, and never sent.
 *
 * An end that cannot be written is in force all the same: the journal then errs towards "held", which a later broker finds out
 * from the client itself. Its line is owed, and is written before the next one.
 *
 * Long because rows, cells and journal must change together.
 */
import type { Clock } from '../../core/clock.js'
import {
  type AcquireManyResult,
  acquireMany as decideTogether,
  type NamedRequest,
} from '../memory/acquire-many.js'
import { type CellTable, createCellTable, type Entry } from '../memory/cell-table.js'
import { createRowTimers } from '../memory/row-timers.js'
import * as table from '../memory/table.js'
import { type Journal, unbegunJournal } from './journal.js'
import { changesBetween, createLookup, endsBetween, type Owner } from './journal-diff.js'
import { type JournalState, type Quarantine, toLines } from './journal-lines.js'
import { unknownAttempt, unknownHold } from './quarantine.js'
import { isFull } from './whole-file.js'

export type Command<A> = (row: table.Row, now: number, wall: number) => table.Step<A>

export interface Outcome<A> {
  readonly row: table.Row
  readonly answer: A
  /** The new holds of attempts that waited. */
  readonly granted: readonly table.Hold[]
  readonly expired: readonly table.Hold[]
  /** Set when the journal could not be written: nothing was granted, renewed or changed, except ends. */
  readonly failure: unknown
  /** Attempts that would have been granted, and are now over. */
  readonly refused: readonly string[]
}

export interface DurableTableParts {
  readonly clock: Clock
  /** Set when holds may be missing from what is restored. */
  readonly quarantine: Quarantine | undefined
  /** Opens a journal with the content of `snapshot`. @returns `before` when that one goes on for now @throws as fs does */
  readonly open: (snapshot: Snapshot, before?: Journal) => Journal
  /** Milliseconds since 1970. */
  readonly wall: () => number
  /** Milliseconds since the machine was started. */
  readonly uptime: () => number
  readonly findOwner: (attempt: string) => Owner
  /** Called when time alone has changed a row. */
  readonly onDue: (name: string) => void
}

/** The whole state at one moment. */
export interface Snapshot {
  /** Journal lines. */
  readonly lines: string
  /** An upper bound of all tokens so far. */
  readonly floor: number
}

export interface DurableTable {
  /** While it is not known for certain what is held: why. */
  readonly unsettled: string | undefined
  readonly cells: CellTable
  /** Records a cell before it is in force. @throws as fs does */
  recordCell(key: string, entry: Entry): void
  /** Records a hold's new owner. If the line cannot be written now, it is written before the next one. */
  recordOwner(name: string, attempt: string): void
  apply<A>(name: string, command: Command<A>): Outcome<A>
  /** Several rows in one step and one write. `failure`: it could not be written, and nothing has changed. */
  batch(asks: readonly NamedRequest[]): { readonly answer: AcquireManyResult; readonly failure: unknown }
  row(name: string): table.Row
  /** Rows with holders or waiters. */
  used(prefix: string): readonly table.Row[]
  /** Restores the journal if its file was deleted, or with `anyway` in any case. @throws as fs does */
  repair(anyway?: boolean): void
  /** Ends the journal and stops the timers. */
  stop(): void
}

/** The number of rows from which idle ones are dropped; they are kept for their record of ended attempts. */
const maxIdleRows = 1024
/** How often commands check for a deleted journal, in ms, if the watch on the directory was not quicker. */
const checkInterval = 5
/** How often renewals try to write a journal again that could not be written, in ms. A grant always tries. */
const retryInterval = 1_000
/** The number of ended attempts that a new journal records. */
const maxEnded = 256

export function createDurableTable(restored: JournalState, parts: DurableTableParts): DurableTable {
  const { clock, wall, uptime, findOwner, quarantine } = parts
  const rows = new Map<string, table.Row>()
  const timers = createRowTimers(clock, parts.onDue)
  const ended: string[] = []
  let floor = restored.floor
  let pendingWrites = ''
  let checkAgain = 0
  let retryAgain = 0
  // The machine's uptime clock is the same for every broker until the machine restarts, and is never set.
  const sinceBoot = uptime() - clock.now()
  const settled = quarantine === undefined ? Number.NEGATIVE_INFINITY : quarantine.until - sinceBoot
  /** Whoever is missing from what is restored may have held for as long. */
  let longest = restored.holds.reduce((most, { hold }) => Math.max(most, hold.ttl), quarantine?.ttl ?? 0)

  for (const { name, attempt } of restored.ended.slice(-maxEnded)) {
    ended.push(toLines.ended(name, attempt, true))
    rows.set(name, table.cancel(known(name), attempt, clock.now(), 0).row)
  }
  for (const { name, hold } of restored.holds) {
    const before = known(name)
    const now = clock.now()
    // The last renewal is unknown: a full ttl from now is never before the end by the client's count.
    const holds = [...before.holds, { ...hold, since: now, expires: now + hold.ttl }]
    rows.set(name, { ...before, holds })
  }
  for (const [name, row] of rows) rows.set(name, withUnknown(row))
  const cells = createCellTable(clock, wall)
  cells.restore(
    restored.cells.map(({ key, entry }) => [key, { ...entry, expires: entry.expires - sinceBoot }]),
    restored.floor,
  )
  let journal = begin()

  function begin(): Journal {
    try {
      return parts.open(snapshot())
    } catch (error) {
      if (isFull(error)) return unbegunJournal(error)
      throw error
    }
  }

  function row(name: string): table.Row {
    return rows.get(name) ?? withUnknown(known(name))
  }

  function known(name: string): table.Row {
    return rows.get(name) ?? table.emptyRow(name, floor)
  }

  function withUnknown(row: table.Row): table.Row {
    if (quarantine === undefined || settled <= clock.now()) return row
    return { ...row, holds: [...row.holds, unknownHold(quarantine, settled, row.token)] }
  }

  function apply<A>(name: string, command: Command<A>): Outcome<A> {
    const before = row(name)
    const now = clock.now()
    const step = command(before, now, wall())
    const { answer, granted, expired } = step
    const lines = recordEnds(before, step.row) + changesBetween(before, step.row, findOwner)
    if (lines !== '') {
      const ttl = longestOf(longest, step.row)
      try {
        write(lines, now, ttl)
      } catch (failure) {
        const { row, refused } = withoutGrants(before, step.row, now)
        keep(row)
        return { row, answer, granted: [], expired, failure, refused }
      }
    } else watchJournal(now)
    keep(step.row)
    return { row: step.row, answer, granted, expired, failure: undefined, refused: [] }
  }

  function together(asks: readonly NamedRequest[]) {
    const now = clock.now()
    const answer = decideTogether(row, asks, now, wall())
    if (answer.is === 'refused') return { answer, failure: undefined }
    const lines = answer.steps.map(({ row: after }) => {
      const before = row(after.name)
      return recordEnds(before, after) + changesBetween(before, after, findOwner)
    })
    try {
      write(lines.join(''), now, answer.steps.map(({ row }) => row).reduce(longestOf, longest))
    } catch (failure) {
      return { answer, failure }
    }
    for (const step of answer.steps) keep(step.row)
    return { answer, failure: undefined }
  }

  /**
   * A renewal writes nothing, but the hold it renews must be in the journal. A journal that another process has put in its
   * place means that this one is no longer the broker.
   */
  function watchJournal(now: number): void {
    if (now < retryAgain) return
    try {
      check(now)
    } catch {
      // The next grant tries again, and reports why it fails.
      retryAgain = now + retryInterval
    }
  }

  function check(now: number): void {
    if (now < checkAgain) return
    // Without a journal, every command checks.
    mend()
    checkAgain = now + checkInterval
  }

  /** @param ttl the longest that is known once `lines` are: recorded twice, for a damaged line tells none */
  function write(lines: string, now: number, ttl = longest): void {
    check(now)
    if (journal.large && journal.rewrite(snapshot())) pendingWrites = ''
    const longer = ttl > longest ? toLines.longest(ttl) : ''
    journal.append(longer + pendingWrites + lines)
    longest = ttl
    pendingWrites = ''
  }

  function mend(anyway = false): void {
    if (!journal.changed && !anyway) return
    const next = parts.open(snapshot(), journal)
    if (next === journal) return
    journal.close()
    journal = next
    pendingWrites = ''
  }

  function keep(next: table.Row): void {
    timers.follow(next)
    if (table.isIdle(next) && rows.size > maxIdleRows) {
      floor = Math.max(floor, next.token)
      rows.delete(next.name)
    } else rows.set(next.name, next)
  }

  /** Remembers the ends that clients requested. @returns the lines of all ends */
  function recordEnds(before: table.Row, after: table.Row): string {
    const lines = endsBetween(before, after)
    for (const { line, byClient } of lines) {
      if (byClient && ended.push(line) > 2 * maxEnded) ended.splice(0, maxEnded)
    }
    return lines.map(({ line }) => line).join('')
  }

  /** `after` without its grants and renewals: what could not be written must not be sent. */
  function withoutGrants(before: table.Row, after: table.Row, now: number) {
    const was = createLookup(before.holds)
    const refused: string[] = []
    const fresh = after.holds.filter((hold) => was(hold.attempt) === undefined)
    let row: table.Row = { ...after, holds: after.holds.map((hold) => was(hold.attempt) ?? hold) }
    for (let hold = fresh.shift(); hold !== undefined; hold = fresh.shift()) {
      const step = table.cancel(row, hold.attempt, now, 0)
      refused.push(hold.attempt)
      fresh.push(...step.granted)
      row = step.row
    }
    pendingWrites += endsBetween(before, row)
      .map(({ line }) => line)
      .join('')
    return { row, refused }
  }

  function cellLine(key: string, entry: Entry): string {
    return toLines.cell(key, entry, entry.expires + sinceBoot)
  }

  function snapshot(): Snapshot {
    const isSettled = quarantine === undefined || settled <= clock.now()
    let lines = (isSettled ? '' : toLines.quarantine(quarantine)) + toLines.longest(longest)
    lines += ended.slice(-maxEnded).join('')
    let top = Math.max(floor, cells.top)
    for (const [key, entry] of cells.entries()) lines += cellLine(key, entry)
    for (const { name, holds, token } of rows.values()) {
      top = Math.max(top, token)
      for (const hold of holds)
        if (hold.attempt !== unknownAttempt)
          lines += toLines.granted({ name, hold, ...findOwner(hold.attempt) })
    }
    return { lines, floor: top }
  }

  return {
    get unsettled() {
      const left = settled - clock.now()
      return quarantine === undefined || left <= 0
        ? undefined
        : `${quarantine.why}; wait for ${Math.ceil(left / 1_000)} s`
    },
    cells,
    recordOwner(name, attempt) {
      const hold = row(name).holds.find((one) => one.attempt === attempt)
      if (hold !== undefined) pendingWrites += toLines.granted({ name, hold, ...findOwner(attempt) })
      try {
        write('', clock.now())
      } catch {
        // The line is owed.
      }
    },
    recordCell: (key, entry) => write(cellLine(key, entry), clock.now()),
    apply,
    batch: together,
    row,
    used: (prefix) => [...rows.values()].filter((one) => one.name.startsWith(prefix) && !table.isIdle(one)),
    repair: mend,
    stop() {
      timers.stop()
      cells.stop()
      journal.retire()
      journal.close()
    },
  }
}

function longestOf(ttl: number, { holds }: table.Row): number {
  return holds.reduce((most, hold) => Math.max(most, hold.ttl), ttl)
}
