/** The operators' commands: list holders and waiters, and force a release. */
import type { LockStatus } from '../../core/driver.js'
import { text } from './client.js'
import { parseRow, toHolders, toLockStatus } from './decision.js'
import { assertOpen, type Runtime } from './runtime.js'
import * as sql from './sql.js'

export async function inspect(runtime: Runtime, name: string): Promise<LockStatus> {
  assertOpen(runtime)
  const { tables } = runtime
  // This order misses nobody: a waiter that leaves the queue in between is seen as a holder.
  const waiting = await runtime.execute(sql.readQueue(tables, name, 'one'))
  const { rows } = await runtime.execute(sql.rows(tables, name, 'one'))
  const row = rows[0] === undefined ? undefined : parseRow(rows[0])
  return toLockStatus(name, row, waiting.rows)
}

export async function list(runtime: Runtime, prefix: string): Promise<readonly LockStatus[]> {
  assertOpen(runtime)
  const { tables } = runtime
  const waiting = await runtime.execute(sql.readQueue(tables, prefix, 'beginning'))
  const { rows } = await runtime.execute(sql.rows(tables, prefix, 'beginning'))
  const found = new Map(rows.map((values) => [text(values[16]), parseRow(values)]))
  const names = new Set([...found.keys(), ...waiting.rows.map(([, name]) => text(name))])
  return [...names]
    .sort()
    .map((name) =>
      toLockStatus(
        name,
        found.get(name),
        waiting.rows.filter((values) => text(values[1]) === name),
      ),
    )
    .filter(({ holders, waiters }) => holders.length + waiters.length > 0)
}

export async function forceRelease(runtime: Runtime, name: string): Promise<number> {
  assertOpen(runtime)
  let meant: ReadonlySet<string> | undefined
  for (;;) {
    const { rows } = await runtime.execute(sql.rows(runtime.tables, name, 'one'))
    const row = rows[0] === undefined ? undefined : parseRow(rows[0])
    const held = row === undefined ? [] : toHolders(row)
    const there = new Set(held.map(({ attempt }) => attempt))
    meant ??= there
    // Later holders are not meant, even if the answer was lost and the same statement is sent again.
    if (row === undefined || ![...meant].some((attempt) => there.has(attempt))) return meant.size
    const { id } = await runtime.execute(sql.forceRelease(runtime.tables, name, row.token))
    if (id !== 0) return held.length
  }
}
