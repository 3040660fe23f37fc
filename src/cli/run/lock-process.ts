/**
 * The keeper: a separate process that holds the lock for one `holdfast run` (for the order of messages see `messages.ts`).
 *
 * Why a second process: whatever ends the front — a supervisor's kill -9, an out-of-memory kill — must not free the lock while the command
 * still runs. The keeper is in another session, so nothing done to the front's process group or terminal reaches it. When the front is
 * gone, the keeper first ends the command, then releases. It does nothing else, so renewals are never late, even while the front is stopped
 * by ^Z.
 */
import { writeSync } from 'node:fs'
import type { Lease, LeaseLostError, Locks, MultiLease } from 'holdfast'
import { type Target, target } from '../connect.js'
import { CliError, endSoon, exitCodeOf, exits } from '../exit.js'
import { knock } from '../knock.js'
import { withStore } from '../with-store.js'
import { stand } from './acquire.js'
import { type Enforcer, enforce } from './enforce.js'
import { isJob, serveJob } from './job.js'
import { type Claim, machineTime, notStarted, type Terms } from './messages.js'
import { termsWithin, worth } from './policy.js'
import { reportRefusals } from './refusals.js'
import { takeSignals } from './signals.js'
import { type Front, listen } from './supervisor-channel.js'

/** A front that was stopped before it could start its command must not keep the lock for ever. In ms. */
const startWithin = 10_000
/** fd of the watcher's pipe, see `supervisor.ts`. */
const watcherLine = 4
/** The lock has been granted, and the front was told so. */
let granted = false

async function main(): Promise<void> {
  process.title = 'holdfast keeper'
  const front = listen()
  takeSignals((signal) => front.tell({ type: 'signal', signal }))
  const claim = await front.claim
  if (claim === undefined) return
  front.cancelled.addEventListener('abort', () => setImmediate(endUngranted, front))
  try {
    const store = target(claim.on, { insecure: claim.insecure })
    // A claim that waits can wait for the store, too.
    if (claim.wait === 0) await knock(store)
    await withStore(store, (locks) => serve(store, locks, claim, front))
  } catch (error) {
    front.tell({ type: 'failed', exitCode: exitCodeOf(error), message: messageOf(error) })
    endSoon()
  }
  if (process.connected) process.disconnect()
}

/** Cancelled before the grant, and the requests that withdraw the claim have left: the front waits for no answer of the store. */
function endUngranted(front: Front): void {
  if (!granted) front.tell({ type: 'done', outcome: 'already-released', stopped: undefined })
}

async function serve(store: Target, locks: Locks, claim: Claim, front: Front): Promise<void> {
  if (claim.wait > 0) reportRefusals(store, locks, claim, front)
  if (isJob(locks, claim)) return serveJob(locks, claim, front, hold)
  const lease = await stand(locks, claim, front)
  if (lease !== undefined) await hold(locks, lease, claim, front)
}

async function hold(locks: Locks, lease: Lease, claim: Claim, front: Front): Promise<void> {
  const terms = await termsOfLease(locks, lease, claim)
  granted = true
  front.tell({ type: 'granted', tokens: tokensOf(lease) })
  const group = await Promise.race([front.started, settled(front.cancelled), later(startWithin)])
  if (typeof group !== 'number') {
    const outcome = await lease.release()
    if (front.cancelled.aborted) return front.tell({ type: 'done', outcome, stopped: undefined })
    throw new CliError(exits.conflict, 'the lock was granted while holdfast was stopped, and given back')
  }
  const least = terms.killAfter + terms.margin
  if (lease.remaining() <= least) await renewed(lease)
  if (lease.remaining() <= least) await giveBack(lease, claim)
  await guard(locks, lease, group, terms, front)
}

/** One token per lock: a resource compares only tokens of its own lock. */
function tokensOf(lease: Lease | MultiLease): number[] {
  return 'leases' in lease ? lease.leases.map(({ token }) => token) : [lease.token]
}

/** The terms this lease can keep: the store may cap it, and a grant may arrive with less time left than a renewal gives. */
async function termsOfLease({ driver }: Locks, lease: Lease, claim: Claim): Promise<Terms> {
  const { ttl, killAfter, margin, minHold, maxHold, killAfterAsked } = claim
  const terms = { ttl, killAfter, margin, minHold, maxHold }
  if (lease.remaining() < worth * lease.ttl && !(await renewed(lease))) await giveBack(lease, claim)
  const remedy =
    driver.name === 'zookeeper' ? 'a longer session: ?sessionTimeout=… in the URL, in ms' : 'a longer --ttl'
  try {
    return termsWithin(terms, lease.ttl, killAfterAsked, remedy)
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

async function giveBack(lease: Lease, claim: Claim): Promise<never> {
  const lost = (await lease.release()) === 'lost'
  const why = lost ? 'the lease was lost' : 'the lease was nearly over and could not be renewed'
  const before = claim.for === 'command' ? ' before the command could start' : ' at once'
  throw new CliError(exits.lost, `${why}${before}${notStarted(claim)}`)
}

/** From the grant to the release. */
async function guard(locks: Locks, lease: Lease, group: number, terms: Terms, front: Front): Promise<void> {
  const started = performance.now()
  const enforcer = enforce(group, lease, terms, (why, signal, detail) =>
    front.tell({ type: 'stopping', why, signal, detail: detail || lostBecause(lease) }),
  )
  const heldUntil = () => machineTime() + lease.remaining()
  const stops = [
    locks.on('renewed', () => {
      enforcer.look()
      front.tell({ type: 'proof', heldUntil: heldUntil() })
    }),
    locks.on('doubtful', ({ remaining }) =>
      front.tell({ type: 'doubtful', stopIn: Math.max(0, remaining - terms.killAfter - terms.margin) }),
    ),
    locks.on('lost', () => enforcer.look()),
  ]
  front.gone.addEventListener('abort', () => enforcer.stop('front-gone'))
  if (front.gone.aborted) enforcer.stop('front-gone')
  front.tell({ type: 'go', heldUntil: heldUntil(), terms })
  await finish(lease, started, enforcer, terms, front)
  for (const stop of stops) stop()
}

async function finish(
  lease: Lease,
  started: number,
  enforcer: Enforcer,
  { minHold }: Terms,
  front: Front,
): Promise<void> {
  // A front that is gone sends nothing more, and the enforcer is ending the group.
  await Promise.race([front.ended, enforcer.gone])
  const proven = lease.isHeld
  enforcer.release()
  await enforcer.gone
  front.tell({ type: 'judged', held: proven && enforcer.stopped === undefined })
  if (enforcer.stopped === 'front-gone') dismissWatcher()
  const rest = started + minHold - performance.now()
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
    // There is no watcher.
  }
}

const losses: Record<string, string> = {
  expired: 'it expired before it could be renewed',
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
  // The front ends the command as soon as we are gone, and reports it.
  console.error(error)
  process.exitCode = exits.internal
})
