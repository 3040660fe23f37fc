/**
 * The lock process: a separate process that holds the lock for one `holdfast run` (for the order of messages see `messages.ts`).
 *
 * Why a second process: whatever ends the supervisor — a service manager's kill -9, an out-of-memory kill — must not free the lock while the command
 * still runs. The lock process is in another session, so nothing done to the supervisor's process group or terminal reaches it. When the supervisor is
 * gone, the lock process first ends the command, then releases. It does nothing else, so renewals are never late, even while the supervisor is stopped
 * by ^Z.
 *
 * Long because the steps of one run, from its request to the release, are read in order.
 */
import { writeSync } from 'node:fs'
import type { Lease, LeaseLostError, Locks, MultiLease } from 'holdfast'
import { type StoreTarget, target } from '../connect.js'
import { CliError, endSoon, exits } from '../exit.js'
import { probe } from '../explain.js'
import { toFailure } from '../failure.js'
import { withStore } from '../with-store.js'
import { acquireLock } from './acquire.js'
import { type Enforcer, enforce } from './enforce.js'
import { isJob, serveJob } from './job.js'
import { withSetting } from './longer-ttl.js'
import { machineTime, notStarted, type RunLimits, type RunRequest } from './messages.js'
import { limitsWithin, minLeaseShare } from './policy.js'
import { reportRefusals } from './refusals.js'
import { forwardSignals } from './signals.js'
import { listen, type SupervisorChannel } from './supervisor-channel.js'

/** A supervisor that was stopped before it could start its command must not keep the lock for ever. In ms. */
const startTimeout = 10_000
/** fd of the watcher's pipe, see `supervisor.ts`. */
const watcherLine = 4
/** The lock has been granted, and the supervisor knows it. */
let granted = false

async function main(): Promise<void> {
  process.title = 'holdfast lock process'
  const supervisor = listen()
  forwardSignals((signal) => supervisor.send({ type: 'signal', signal }))
  const claim = await supervisor.claim
  if (claim === undefined) return
  const cancelled = () => setImmediate(endBeforeGrant, supervisor)
  supervisor.cancelled.addEventListener('abort', cancelled)
  // It may have come together with the claim, before anybody listened.
  if (supervisor.cancelled.aborted) cancelled()
  try {
    const store = target(claim.on, { insecure: claim.insecure })
    // A claim that waits can wait for the store, too.
    if (claim.wait === 0) await probe(store)
    await withStore(store, (locks) => serve(store, locks, claim, supervisor))
  } catch (error) {
    supervisor.send({ type: 'failed', failure: toFailure(withSetting(error, claim)) })
    endSoon()
  }
  // If no request was under way when the run was cancelled, this line is reached before the immediate runs.
  if (supervisor.cancelled.aborted) endBeforeGrant(supervisor)
  if (process.connected) process.disconnect()
}

/** Cancelled before the grant, and the requests that withdraw the claim have left: the supervisor waits for no answer of the store. */
function endBeforeGrant(supervisor: SupervisorChannel): void {
  if (!granted) supervisor.send({ type: 'done', outcome: 'already-released', stopped: undefined })
}

async function serve(
  store: StoreTarget,
  locks: Locks,
  claim: RunRequest,
  supervisor: SupervisorChannel,
): Promise<void> {
  if (claim.wait > 0) reportRefusals(store, locks, claim, supervisor)
  if (isJob(locks, claim)) return serveJob(locks, claim, supervisor, hold)
  const lease = await acquireLock(locks, claim, supervisor)
  if (lease !== undefined) await hold(locks, lease, claim, supervisor)
}

async function hold(
  locks: Locks,
  lease: Lease,
  claim: RunRequest,
  supervisor: SupervisorChannel,
): Promise<void> {
  const terms = await limitsForLease(locks, lease, claim)
  granted = true
  supervisor.send({ type: 'granted', tokens: listTokens(lease) })
  const group = await Promise.race([
    supervisor.started,
    waitForAbort(supervisor.cancelled),
    later(startTimeout),
  ])
  if (typeof group !== 'number') {
    const outcome = await lease.release()
    if (supervisor.cancelled.aborted) return supervisor.send({ type: 'done', outcome, stopped: undefined })
    throw new CliError(exits.conflict, 'the lock was granted while holdfast was stopped, and was released')
  }
  const least = terms.killAfter + terms.margin
  if (lease.remaining() <= least) await renewed(lease)
  if (lease.remaining() <= least) await releaseUnused(lease, claim)
  await guard(locks, lease, group, terms, supervisor)
}

/** One token per lock: a resource compares only tokens of its own lock. */
function listTokens(lease: Lease | MultiLease): number[] {
  return 'leases' in lease ? lease.leases.map(({ token }) => token) : [lease.token]
}

/** The terms this lease can keep: the store may cap it, and a grant may arrive with less time left than a renewal gives. */
async function limitsForLease({ driver }: Locks, lease: Lease, claim: RunRequest): Promise<RunLimits> {
  const { ttl, killAfter, margin, minHold, maxHold, hasKillAfter } = claim
  const terms = { ttl, killAfter, margin, minHold, maxHold }
  if (lease.remaining() < minLeaseShare * lease.ttl && !(await renewed(lease)))
    await releaseUnused(lease, claim)
  const remedy =
    driver.name === 'zookeeper' ? 'a longer session: ?sessionTimeout=… in the URL, in ms' : 'a longer --ttl'
  try {
    return limitsWithin(terms, lease.ttl, hasKillAfter, remedy)
  } catch (error) {
    await lease.release()
    throw error
  }
}

/** False: the store refuses or does not answer; the old deadline stands. */
async function renewed(lease: Lease): Promise<boolean> {
  try {
    return (await lease.extend()) > 0
  } catch {
    return false
  }
}

async function releaseUnused(lease: Lease, claim: RunRequest): Promise<never> {
  const lost = (await lease.release()) === 'lost'
  const why = lost ? 'the lease was lost' : 'the lease was nearly over and could not be renewed'
  const before = claim.for === 'command' ? ' before the command could start' : ' at once'
  throw new CliError(exits.lost, `${why}${before}${notStarted(claim)}`)
}

/** From the grant to the release. */
async function guard(
  locks: Locks,
  lease: Lease,
  group: number,
  terms: RunLimits,
  supervisor: SupervisorChannel,
): Promise<void> {
  const started = performance.now()
  const enforcer = enforce(group, lease, terms, (why, signal, detail) =>
    supervisor.send({ type: 'stopping', why, signal, detail: detail || lossReason(lease) }),
  )
  const heldUntil = () => machineTime() + lease.remaining()
  let refusal: string | undefined
  const stops = [
    locks.on('storeError', ({ operation, code, error }) => {
      if (operation === 'renew' && code === 'BACKEND') refusal = (error as Error).message
    }),
    locks.on('renewed', () => {
      refusal = undefined
      enforcer.look()
      supervisor.send({ type: 'proof', heldUntil: heldUntil() })
    }),
    locks.on('doubtful', ({ remaining }) => {
      const stopIn = Math.max(0, remaining - terms.killAfter - terms.margin)
      supervisor.send({ type: 'doubtful', stopIn, refusal })
    }),
    locks.on('lost', () => enforcer.look()),
  ]
  supervisor.gone.addEventListener('abort', () => enforcer.stop('supervisor-gone'))
  if (supervisor.gone.aborted) enforcer.stop('supervisor-gone')
  supervisor.send({ type: 'go', heldUntil: heldUntil(), terms })
  await finish(lease, started, enforcer, terms, supervisor)
  for (const stop of stops) stop()
}

async function finish(
  lease: Lease,
  started: number,
  enforcer: Enforcer,
  { minHold }: RunLimits,
  supervisor: SupervisorChannel,
): Promise<void> {
  // A supervisor that is gone sends nothing more, and the enforcer is ending the group.
  await Promise.race([supervisor.ended, enforcer.gone])
  const proven = lease.isHeld
  enforcer.release()
  await enforcer.gone
  supervisor.send({ type: 'judged', held: proven && enforcer.stopped === undefined })
  if (enforcer.stopped === 'supervisor-gone') dismissWatcher()
  const rest = started + minHold - performance.now()
  if (proven && enforcer.stopped === undefined && rest > 0) {
    await Promise.race([later(rest), waitForAbort(supervisor.cancelled)])
  }
  const outcome = await lease.release()
  supervisor.send({ type: 'done', outcome: proven ? outcome : 'lost', stopped: enforcer.stopped })
}

function dismissWatcher(): void {
  try {
    writeSync(watcherLine, 'over\n')
  } catch {
    // There is no watcher.
  }
}

const losses: Record<string, string> = {
  expired: 'it expired before it could be renewed',
  taken: 'the store says it is not ours any more',
  revoked: 'the store ended it',
}

function lossReason(lease: Lease): string {
  return lease.signal.aborted ? (losses[(lease.signal.reason as LeaseLostError).why] ?? '') : ''
}

/** Resolves when it aborts. */
function waitForAbort(signal: AbortSignal): Promise<undefined> {
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
  // The supervisor ends the command as soon as we are gone, and reports it.
  console.error(error)
  process.exitCode = exits.internal
})
