/**
 * Acquires several claims in one statement, `sql-acquire-many.ts`. The statement skips rows that are locked at that moment and writes nothing
 * unless it gets all. So "no" may only mean that somebody renewed, released or took one of them just then. A look shows what is true:
 *
 * ```
 *   ┌► all at once ──► taken ─────────────────────────────────────────────► a token for all
 *   │     │ no
 *   │     ▼
 *   │  look at each ─► one is held, or somebody waits for it ──────────────► nothing
 *   └──── all fit: as they were seen (missing rows are created)
 * ```
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { orAborted } from '../../core/or-aborted.js'
import { AutoResetEvent } from '../kit/auto-reset-event.js'
import { cleanUp } from './cleanup.js'
import { number } from './client.js'
import { type Decision, decide, parseRow, toPrecondition } from './decision.js'
import { findErrno, toFailure } from './failure.js'
import type { HoldProof } from './hold.js'
import type { Runtime } from './runtime.js'
import * as sql from './sql.js'
import { acquireAll } from './sql-acquire-many.js'
import type { Strategy } from './waiter.js'

const tryLockRows: sql.Precondition = { is: 'first' }

/** Undefined: one is not free, or the wait is over, and nothing of the claims is left. @throws BackendError, RangeError */
export async function acquireMany(
  runtime: Runtime,
  { rollback }: Pick<Strategy, 'rollback'>,
  claims: readonly Claim[],
  wait: Wait,
): Promise<readonly HoldProof[] | undefined> {
  if (wait.ended) return undefined
  const longest = Math.max(...claims.map(({ ttl }) => ttl))
  const end = async () => {
    for (const claim of claims) await rollback(claim)
  }
  const { signal } = wait
  try {
    const proven = await orAborted(resolveAmbiguous(runtime, claims, signal, end), signal)
    if (proven === 'in part') await cleanUp(runtime, end, longest, false)
    return proven === 'in part' ? undefined : proven
  } catch (error) {
    if (error instanceof RangeError) throw error
    const { ambiguous, error: told } = toFailure(error)
    if (signal.aborted || ambiguous) void cleanUp(runtime, end, longest, true)
    if (signal.aborted) return undefined
    throw told
  }
}

async function resolveAmbiguous(
  runtime: Runtime,
  claims: readonly Claim[],
  over: AbortSignal,
  end: () => Promise<void>,
): Promise<readonly HoldProof[] | 'in part' | undefined> {
  const { execute, clock, tables, by, settings } = runtime
  const began = clock.now()
  let guards: readonly sql.Precondition[] = claims.map(() => tryLockRows)
  for (let misses = 1; !over.aborted && !runtime.closed; misses++) {
    const latest = await runtime.serverDeadline()
    const takings = claims.map((claim, i) => ({ claim, by, guard: guards[i] ?? tryLockRows, latest }))
    const answer = await execute(acquireAll(tables, takings)).catch((error: unknown) => {
      // Where `sql_safe_updates` is on, the server takes no statement for many rows, but those for one.
      if (findErrno(error) !== 1175) throw error
      return undefined
    })
    if (answer === undefined) return oneByOne(runtime, claims, began, over, end)
    const { id, sent } = answer
    if (id !== 0) return claims.map(({ ttl }) => ({ token: id, validUntil: deadline(sent, ttl), since: id }))
    const seen = await readAll(runtime, claims, began)
    if (!('guards' in seen)) return seen.held
    guards = seen.guards
    // All are free, and were each time: a stranger's transaction keeps a row locked.
    if (clock.now() - began > settings.commandTimeout) throw locked()
    if (misses > 1) await sleep(runtime, Math.min(2 ** misses, 20) * (0.5 + runtime.random()))
  }
  return undefined
}

/** One after the other: somebody may see some of them taken and released. @param end releases what was taken, if an error comes in between */
async function oneByOne(
  runtime: Runtime,
  claims: readonly Claim[],
  began: number,
  over: AbortSignal,
  end: () => Promise<void>,
): Promise<readonly HoldProof[] | 'in part' | undefined> {
  const seen = await readAll(runtime, claims, began)
  if (!('guards' in seen)) return seen.held
  const held: HoldProof[] = []
  try {
    for (const [i, claim] of claims.entries()) {
      if (over.aborted || runtime.closed) return 'in part'
      const latest = await runtime.serverDeadline()
      const taking = { claim, by: runtime.by, guard: seen.guards[i] ?? tryLockRows, latest }
      const { id, sent } = await runtime.execute(sql.acquire(runtime.tables, taking))
      if (id === 0) return held.length > 0 ? 'in part' : undefined
      held.push({ token: id, validUntil: deadline(sent, claim.ttl), since: id })
    }
  } catch (error) {
    if (held.length > 0) await cleanUp(runtime, end, Math.max(...claims.map(({ ttl }) => ttl)), false)
    throw error
  }
  return held
}

type LockedRows =
  | { readonly guards: readonly sql.Precondition[] }
  /** Undefined: one is not free. `in part`: an earlier statement of these claims took them, and not all are there any more. */
  | { readonly held: readonly HoldProof[] | 'in part' | undefined }

/** @param began clock reading before the first statement was sent @throws RangeError when a semaphore has a different limit */
async function readAll(runtime: Runtime, claims: readonly Claim[], began: number): Promise<LockedRows> {
  const guards: sql.Precondition[] = []
  const held: HoldProof[] = []
  for (const claim of claims) {
    const { decision, sent } = await readOne(runtime, claim)
    if (decision.is === 'limit')
      throw permitLimitError(claim.name, decision.limit, claim.mode.kind === 'permits' ? claim.mode.of : 0)
    if (decision.is === 'busy') return { held: held.length > 0 ? 'in part' : undefined }
    if (decision.is === 'take') guards.push(decision.guard)
    else {
      // The lock was taken after `began`, however much time a clock that was put back since seems to leave.
      const validUntil = Math.min(deadline(sent, decision.left), deadline(began, claim.ttl))
      held.push({ token: decision.token, validUntil, since: decision.since })
    }
  }
  if (held.length === 0) return { guards }
  return { held: held.length === claims.length ? held : 'in part' }
}

/** Creates the row if there is none. */
async function readOne(
  { execute, tables, noteServerTime }: Runtime,
  claim: Claim,
): Promise<{ readonly decision: Decision; readonly sent: number }> {
  const { rows, sent } = await execute(sql.readRow(tables, claim, undefined))
  const values = rows[0]
  if (values === undefined) {
    await execute(sql.create(tables, claim.name))
    return { decision: { is: 'take', guard: tryLockRows }, sent }
  }
  const row = parseRow(values)
  noteServerTime(values[19], sent)
  const [ahead, wanted] = [number(values[16]), number(values[17])]
  const decision = decide(row, claim, { ahead, wanted, queued: false, once: true, unchangedFor: 0 })
  if (decision.is !== 'take') return { decision, sent }
  return { decision: { ...decision, guard: toPrecondition(row, claim, decision.guard) }, sent }
}

async function sleep(runtime: Runtime, ms: number): Promise<void> {
  const pause = new AutoResetEvent(runtime.clock)
  runtime.closeListeners.add(pause.set)
  if (!runtime.closed) await pause.wait(ms)
  runtime.closeListeners.delete(pause.set)
}

const locked = () =>
  new BackendError(
    'mysql',
    'all of these locks are free, but the row of one stayed locked; somebody holds it in a transaction of their own',
  )
