/**
 * The keeper: a process of its own that holds the lock for one `holdfast run` (see `messages.ts` for what is said when).
 *
 * Why a second process: whatever ends the front — a supervisor's kill -9, an out-of-memory kill — must not free the lock while
 * the command still runs. The keeper is in another session, so nothing that is done to the front's process group or
 * terminal reaches it; when the front is gone it ends the command first and releases afterwards. It does nothing else, so renewals
 * are never late, also while the front is stopped by ^Z.
 */
import { writeSync } from 'node:fs'
import { createLocks, type Lease, type LeaseLostError, type Locks } from 'holdfast'
import { explained, target } from '../connect.js'
import { CliError, exitCodeOf, exits } from '../exit.js'
import { type Enforcer, enforce } from './enforce.js'
import { isJob, serveJob } from './job.js'
import { type Front, listen } from './listen.js'
import { type Claim, machineTime } from './messages.js'
import { takeSignals } from './signals.js'
import { stand } from './stand.js'

/** A front that was stopped before it could start its command must not keep the lock for ever, in ms. */
const startWithin = 10_000
/** fd of the watcher's line, see `front.ts`. */
const watcherLine = 4

async function main(): Promise<void> {
  process.title = 'holdfast keeper'
  const front = listen()
  takeSignals((signal) => front.tell({ type: 'signal', signal }))
  const claim = await front.claim
  if (claim === undefined) return
  try {
    const store = target(claim.on)
    const connection = await store.connect()
    const locks = createLocks(connection.driver)
    try {
      await serve(locks, claim, front)
    } catch (error) {
      throw explained(error, store, connection)
    } finally {
      await locks.close()
      await connection.close()
    }
  } catch (error) {
    front.tell({ type: 'failed', exitCode: exitCodeOf(error), message: messageOf(error) })
  }
  if (process.connected) process.disconnect()
}

async function serve(locks: Locks, claim: Claim, front: Front): Promise<void> {
  if (isJob(locks, claim)) return serveJob(locks, claim, front, hold)
  const lease = await stand(locks, claim, front)
  if (lease !== undefined) await hold(locks, lease, claim, front)
}

async function hold(locks: Locks, lease: Lease, claim: Claim, front: Front): Promise<void> {
  front.tell({ type: 'granted', token: lease.token })
  const group = await Promise.race([front.started, settled(front.cancelled), later(startWithin)])
  const { killAfter, margin } = claim
  if (typeof group !== 'number') {
    const outcome = await lease.release()
    if (front.cancelled.aborted) return front.tell({ type: 'done', outcome, stopped: undefined })
    throw new CliError(exits.conflict, 'the lock was granted while holdfast was stopped, and given back')
  }
  if (lease.remaining() <= killAfter + margin) {
    await lease.release()
    throw new CliError(
      exits.lost,
      'the lease was nearly over before the command could start; it was given back',
    )
  }
  await guard(locks, lease, group, claim, front)
}

/** From the grant to the release. */
async function guard(locks: Locks, lease: Lease, group: number, claim: Claim, front: Front): Promise<void> {
  const started = performance.now()
  const enforcer = enforce(group, lease, claim, (why, signal, detail) =>
    front.tell({ type: 'stopping', why, signal, detail: detail || lostBecause(lease) }),
  )
  const heldUntil = () => machineTime() + lease.remaining()
  const stops = [
    locks.on('renewed', () => {
      enforcer.look()
      front.tell({ type: 'proof', heldUntil: heldUntil() })
    }),
    locks.on('doubtful', ({ remaining }) =>
      front.tell({ type: 'doubtful', stopIn: Math.max(0, remaining - claim.killAfter - claim.margin) }),
    ),
    locks.on('lost', () => enforcer.look()),
  ]
  front.gone.addEventListener('abort', () => enforcer.stop('front-gone'))
  if (front.gone.aborted) enforcer.stop('front-gone')
  front.tell({ type: 'go', heldUntil: heldUntil() })
  await finish(lease, started, enforcer, claim, front)
  for (const stop of stops) stop()
}

async function finish(
  lease: Lease,
  started: number,
  enforcer: Enforcer,
  claim: Claim,
  front: Front,
): Promise<void> {
  // A front that is gone says nothing more, and the enforcer is ending the group.
  await Promise.race([front.ended, enforcer.gone])
  const proven = lease.isHeld
  enforcer.release()
  await enforcer.gone
  if (enforcer.stopped === 'front-gone') dismissWatcher()
  const rest = started + claim.minHold - performance.now()
  if (proven && enforcer.stopped === undefined && rest > 0) {
    await Promise.race([later(rest), settled(front.cancelled)])
  }
  const outcome = await lease.release()
  front.tell({ type: 'done', outcome: proven ? outcome : 'lost', stopped: enforcer.stopped })
}

function dismissWatcher(): void {
  try {
    writeSync(watcherLine, 'over\n')
  } catch {
    // There is none.
  }
}

const losses: Record<string, string> = {
  expired: 'it could not be proven in time',
  taken: 'the store says it is not ours any more',
  revoked: 'the store ended it',
}

function lostBecause(lease: Lease): string {
  return lease.signal.aborted ? (losses[(lease.signal.reason as LeaseLostError).why] ?? '') : ''
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Resolves when it aborts. */
function settled(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    else signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
}

function later(ms: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms, undefined).unref()
  })
}

main().catch((error: unknown) => {
  // The front ends the command as soon as we are gone, and says so.
  console.error(error)
  process.exitCode = exits.internal
})
