/** The operators' requests: who holds and who waits. However many wait in this process, their statements do not go before these. */
import type { LockStatus } from '../../core/driver.js'
import { text } from './client.js'
import { parseRow, toLockStatus } from './decision.js'
import { assertOpen, type Runtime } from './runtime.js'
import * as sql from './sql.js'

export async function inspect(runtime: Runtime, name: string): Promise<LockStatus> {
  assertOpen(runtime)
  const { tables } = runtime
  // This order misses nobody: a waiter that leaves the queue in between is seen as a holder.
  const waiting = await runtime.execute(sql.readQueue(tables, name, 'one'), true)
  const { rows } = await runtime.execute(sql.rows(tables, name, 'one'), true)
  const row = rows[0] === undefined ? undefined : parseRow(rows[0])
  return toLockStatus(name, row, waiting.rows)
}

export async function list(runtime: Runtime, prefix: string): Promise<readonly LockStatus[]> {
  assertOpen(runtime)
  const { tables } = runtime
  const waiting = await runtime.execute(sql.readQueue(tables, prefix, 'beginning'), true)
  const { rows } = await runtime.execute(sql.rows(tables, prefix, 'beginning'), true)
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
