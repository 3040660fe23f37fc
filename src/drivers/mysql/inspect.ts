/** The operators' commands: list holders and waiters, and force a release. */
import type { Standing } from '../../core/driver.js'
import { text } from './client.js'
import { holdersOf, rowOf, standingOf } from './decision.js'
import { assertOpen, type Desk } from './runtime.js'
import * as sql from './sql.js'

export async function inspect(desk: Desk, name: string): Promise<Standing> {
  assertOpen(desk)
  const { tables } = desk
  // This order misses nobody: a waiter that leaves the queue in between is seen as a holder.
  const waiting = await desk.ask(sql.line(tables, name, 'one'))
  const { rows } = await desk.ask(sql.rows(tables, name, 'one'))
  const row = rows[0] === undefined ? undefined : rowOf(rows[0])
  return standingOf(name, row, waiting.rows)
}

export async function list(desk: Desk, prefix: string): Promise<readonly Standing[]> {
  assertOpen(desk)
  const { tables } = desk
  const waiting = await desk.ask(sql.line(tables, prefix, 'beginning'))
  const { rows } = await desk.ask(sql.rows(tables, prefix, 'beginning'))
  const found = new Map(rows.map((values) => [text(values[16]), rowOf(values)]))
  const names = new Set([...found.keys(), ...waiting.rows.map(([, name]) => text(name))])
  return [...names]
    .sort()
    .map((name) =>
      standingOf(
        name,
        found.get(name),
        waiting.rows.filter((values) => text(values[1]) === name),
      ),
    )
    .filter(({ holders, waiters }) => holders.length + waiters.length > 0)
}

export async function forceRelease(desk: Desk, name: string): Promise<number> {
  assertOpen(desk)
  let meant: ReadonlySet<string> | undefined
  for (;;) {
    const { rows } = await desk.ask(sql.rows(desk.tables, name, 'one'))
    const row = rows[0] === undefined ? undefined : rowOf(rows[0])
    const held = row === undefined ? [] : holdersOf(row)
    const there = new Set(held.map(({ attempt }) => attempt))
    meant ??= there
    // Later holders are not meant, even if the answer was lost and the same statement is sent again.
    if (row === undefined || ![...meant].some((attempt) => there.has(attempt))) return meant.size
    const { id } = await desk.ask(sql.force(desk.tables, name, row.token))
    if (id !== 0) return held.length
  }
}
