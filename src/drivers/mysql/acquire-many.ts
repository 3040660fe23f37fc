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
import { unlessAborted } from '../../core/unless-aborted.js'
import { AutoResetEvent } from '../kit/auto-reset-event.js'
import { giveUp } from './cleanup.js'
import { number } from './client.js'
import { type Decision, decide, guardOf, rowOf } from './decision.js'
import { troubleOf } from './failure.js'
import type { Proven } from './hold.js'
import type { Desk } from './runtime.js'
import * as sql from './sql.js'
import { takeAll } from './sql-acquire-many.js'
import type { Taker } from './waiter.js'

const first: sql.Guard = { is: 'first' }

/** Undefined: one is not free, or the wait is over, and nothing of the claims is left. @throws BackendError, RangeError */
export async function takeTogether(
  desk: Desk,
  { undo }: Pick<Taker, 'undo'>,
  claims: readonly Claim[],
  wait: Wait,
): Promise<readonly Proven[] | undefined> {
  if (wait.over) return undefined
  const longest = Math.max(...claims.map(({ ttl }) => ttl))
  const end = async () => {
    for (const claim of claims) await undo(claim)
  }
  const { signal } = wait
  try {
    const proven = await unlessAborted(untilKnown(desk, claims, signal), signal)
    if (proven === 'in part') await giveUp(desk, end, longest, false)
    return proven === 'in part' ? undefined : proven
  } catch (error) {
    if (error instanceof RangeError) throw error
    const { unknown, error: told } = troubleOf(error)
    if (signal.aborted || unknown) void giveUp(desk, end, longest, true)
    if (signal.aborted) return undefined
    throw told
  }
}

async function untilKnown(
  desk: Desk,
  claims: readonly Claim[],
  over: AbortSignal,
): Promise<readonly Proven[] | 'in part' | undefined> {
  const { ask, clock, tables, by, settings } = desk
  const began = clock.now()
  let guards: readonly sql.Guard[] = claims.map(() => first)
  for (let misses = 1; !over.aborted && !desk.closed; misses++) {
    const latest = await desk.latest()
    const takings = claims.map((claim, i) => ({ claim, by, guard: guards[i] ?? first, latest }))
    const { id, sent } = await ask(takeAll(tables, takings))
    if (id !== 0) return claims.map(({ ttl }) => ({ token: id, validUntil: deadline(sent, ttl), since: id }))
    const seen = await lookAtAll(desk, claims, began)
    if (!('guards' in seen)) return seen.held
    guards = seen.guards
    // All are free, and were each time: a stranger's transaction keeps a row locked.
    if (clock.now() - began > settings.commandTimeout) throw locked()
    if (misses > 1) await rest(desk, Math.min(2 ** misses, 20) * (0.5 + desk.random()))
  }
  return undefined
}

type Seen =
  | { readonly guards: readonly sql.Guard[] }
  /** Undefined: one is not free. `in part`: an earlier statement of these claims took them, and not all are there any more. */
  | { readonly held: readonly Proven[] | 'in part' | undefined }

/** @param began clock reading before the first statement was sent @throws RangeError when a semaphore has a different limit */
async function lookAtAll(desk: Desk, claims: readonly Claim[], began: number): Promise<Seen> {
  const guards: sql.Guard[] = []
  const held: Proven[] = []
  for (const claim of claims) {
    const { decision, sent } = await lookAt(desk, claim)
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
async function lookAt(
  { ask, tables, heard }: Desk,
  claim: Claim,
): Promise<{ readonly decision: Decision; readonly sent: number }> {
  const { rows, sent } = await ask(sql.look(tables, claim, undefined))
  const values = rows[0]
  if (values === undefined) {
    await ask(sql.create(tables, claim.name))
    return { decision: { is: 'take', guard: first }, sent }
  }
  const row = rowOf(values)
  heard(row.now, sent)
  const [ahead, wanted] = [number(values[16]), number(values[17])]
  const decision = decide(row, claim, { ahead, wanted, standing: false, once: true, silent: 0 })
  if (decision.is !== 'take') return { decision, sent }
  return { decision: { ...decision, guard: guardOf(row, claim, decision.guard) }, sent }
}

async function rest(desk: Desk, ms: number): Promise<void> {
  const pause = new AutoResetEvent(desk.clock)
  desk.pauses.add(pause.set)
  if (!desk.closed) await pause.wait(ms)
  desk.pauses.delete(pause.set)
}

const locked = () =>
  new BackendError(
    'mysql',
    'all of these locks are free, but the row of one stayed locked; somebody holds it in a transaction of their own',
  )
