/**
 * An operator takes a lock by force.
 *
 * A hold of the strategy `session` is a `GET_LOCK`, which only the end of its connection frees: writing to the row would not let anybody in.
 * So the server ends that connection (`KILL`) first. If it refuses, nothing was changed. Only the connection that the row names is ended: once it
 * is gone, the `GET_LOCK` may be that of a newcomer which has not written the row yet.
 *
 * ```
 *   ┌► look: who holds, by which token? ──► nobody who was seen at first ───► done
 *   │    │ by a row          │ by a connection
 *   │    │                   ▼
 *   │    │     by which one? (the row) ──► ours: this process gives it back
 *   │    │                   │ another: KILL if it has the GET_LOCK ──► refused: error
 *   │    ▼                   ▼
 *   └─ write "free" to the row, if it still has that token ───────────────► done
 * ```
 */
import { BackendError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
import { AutoResetEvent } from '../kit/auto-reset-event.js'
import { number } from './client.js'
import { parseRow, type Row, toHolders } from './decision.js'
import { findErrno } from './failure.js'
import { assertOpen, type Runtime } from './runtime.js'
import { rows as readRows } from './sql.js'
import * as sql from './sql-force-release.js'

/** Gives back a `GET_LOCK` of the own connection, which has other locks to keep. */
export type GiveBack = (name: string, attempt: string) => Promise<void>

/** @param giveBack of the strategy `session` @returns how many holds were ended */
export async function forceRelease(runtime: Runtime, name: string, giveBack?: GiveBack): Promise<number> {
  assertOpen(runtime)
  let meant: ReadonlySet<string> | undefined
  for (;;) {
    const { rows } = await runtime.execute(readRows(runtime.tables, name, 'one'), true)
    const row = rows[0] === undefined ? undefined : parseRow(rows[0])
    const held = row === undefined ? [] : toHolders(row)
    const there = new Set(held.map(({ attempt }) => attempt))
    meant ??= there
    // Later holders are not meant, even if the answer was lost and the same statement is sent again.
    if (row === undefined || ![...meant].some((attempt) => there.has(attempt))) return meant.size
    if (row.kind === 'g' && !(await endSessionHold(runtime, name, row, giveBack))) continue
    const { id } = await runtime.execute(sql.forceRelease(runtime.tables, name, row.token), true)
    if (id !== 0) return held.length
  }
}

/** @returns false: the row, or who has the lock, has changed meanwhile */
async function endSessionHold(
  runtime: Runtime,
  name: string,
  { token, owner }: Row,
  giveBack: GiveBack | undefined,
): Promise<boolean> {
  const { execute, tables } = runtime
  const { rows } = await execute(sql.connectionOf(tables, name, token), true)
  const [holder, own] = (rows[0] ?? []).map(number)
  if (holder === undefined || holder === 0) return false
  if (holder === own) {
    await giveBack?.(name, owner)
    return true
  }
  try {
    await execute(sql.endConnection(tables, name, holder), true)
  } catch (error) {
    const errno = findErrno(error)
    // It has ended, or given the lock back.
    if (errno === 1094) return false
    if (denials.has(errno ?? 0)) throw refused(name, holder, errno, error)
    throw error
  }
  await untilEnded(runtime, name, holder)
  return true
}

/** The server answers KILL before the connection has ended. */
async function untilEnded({ execute, tables, clock, settings }: Runtime, name: string, id: number) {
  const pause = new AutoResetEvent(clock)
  const giveUpAt = clock.now() + settings.commandTimeout
  for (let ms = 1; ; ms = Math.min(2 * ms, 50)) {
    const { rows } = await execute(sql.usedBy(tables, name), true)
    if (number(rows[0]?.[0]) !== id) return
    if (clock.now() > giveUpAt) throw lingers(name, id, settings.commandTimeout)
    await pause.wait(ms)
  }
}

/** Another user's connection · one of a user with more rights. */
const denials = new Set([1095, 1227])

const refused = (name: string, id: number, errno: number | undefined, cause: unknown) =>
  new BackendError(
    'mysql',
    `${quote(name)} is held by a connection (strategy session), and this user may not end the connection ${id} of its holder (${errno}): nothing was changed; use the holder's own user, or one with the right to KILL (CONNECTION_ADMIN in MySQL, CONNECTION ADMIN in MariaDB)`,
    { cause },
  )

const lingers = (name: string, id: number, ms: number) =>
  new BackendError(
    'mysql',
    `the server was told to end the connection ${id}, which holds ${quote(name)}, and has not done so within ${ms} ms: the lock is free when it has`,
  )
