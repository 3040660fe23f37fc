/**
 * What the store's reply to one request means for the caller that waits for it. `conclude` in `reply-outcome.ts` decides;
 * here the grant is renewed first where it must be, delivered, or given back, and the queue goes on.
 */
import { patience } from './caching.js'
import type { Claim, Grant } from './driver.js'
import { BackendError } from './errors.js'
import { isShortened, renewed, usable } from './grant-freshness.js'
import type { LocalQueue } from './local-queue.js'
import { quote } from './name.js'
import type { QueueEntry } from './queue-entry.js'
import * as rules from './queue-state.js'
import { unusedGrant } from './releases.js'
import { conclude, type Outcome } from './reply-outcome.js'
import type { StoreRequest } from './store-request.js'
import { Watchdog } from './watchdog.js'

/** The store has replied: with a grant, or that there is none. */
export function replyArrived(
  queue: LocalQueue,
  request: StoreRequest,
  grant: Grant | undefined,
): void | Promise<void> {
  const { engine, name } = queue
  // The reply may have waited for a machine that slept.
  engine.clock.noticeSleep()
  const { mode } = request.claim
  if (grant !== undefined && mode.kind === 'permits') engine.limits.accepted(name, mode.of)
  if (grant === undefined || !mustBeRenewed(grant, request, engine.clock.now()))
    return settle(queue, request, grant)
  // The request goes on meanwhile: the wait may end, or another caller of this process may take it over.
  return renewed(engine, grant, request).then((kept) => settle(queue, request, grant, kept))
}

/** The request failed, in the store or on the way. */
export function requestFailed(queue: LocalQueue, request: StoreRequest, error: unknown): void {
  const owner = endRequest(queue, request)
  const { mode } = request.claim
  if (mode.kind === 'permits' && error instanceof RangeError) queue.engine.limits.refused(queue.name, mode.of)
  if (owner !== undefined) fail(owner, error)
  queue.pump()
}

/** Has the grant little time left, and an owner that can wait until it is renewed? */
function mustBeRenewed(grant: Grant, request: StoreRequest, now: number): boolean {
  const { owner, once, ended } = request
  if (owner === undefined || ended || (once && request.remaining() === 0)) return false
  return isShortened(grant, owner.terms, now)
}

/** @param kept false: the store has replied that the grant is over */
function settle(queue: LocalQueue, request: StoreRequest, grant: Grant | undefined, kept = true): void {
  const { engine } = queue
  const { claim } = request
  const owner = endRequest(queue, request)
  // First of all: a listener of such a loss may end this very wait.
  const newest = grant === undefined || supersede(queue, claim, grant)
  engine.clock.noticeSleep()
  const now = engine.clock.now()
  const refusedByCache = grant === undefined && mayBeRefusedByCache(request, owner)
  // Only where it matters: the check ends a wait that is over.
  const matters = grant !== undefined || request.reassigned || refusedByCache
  const outcome = conclude(request, {
    owned: owner !== undefined,
    waiting: matters && owner?.deadline.isStillWaiting() === true,
    granted: grant !== undefined,
    usable: kept && grant !== undefined && owner !== undefined && usable(grant, owner.terms, now),
    newest,
    refusedByCache,
  })
  if (grant !== undefined && outcome !== 'deliver') void unusedGrant(engine, claim, grant).release()
  if (owner !== undefined) perform(outcome, queue, request, owner, grant, now)
  queue.pump()
}

function perform(
  outcome: Outcome,
  queue: LocalQueue,
  { claim, sent }: StoreRequest,
  owner: QueueEntry,
  grant: Grant | undefined,
  now: number,
): void {
  if (outcome === 'deliver' && grant !== undefined) {
    queue.handoff?.begin()
    const watchdog = new Watchdog(queue.engine, claim, grant, owner.terms, now)
    queue.deliver(owner, watchdog, grant.token, now, false)
  } else if (outcome === 'ask-again') queue.ask(rules.askAgain(queue.state, owner))
  else if (outcome === 'ask-patiently')
    queue.ask({ entry: owner, once: true, turn: false }, patience(now - sent, owner.terms.ttl))
  else if (outcome === 'refuse') refuse(owner)
  else if (outcome === 'too-late') fail(owner, replyTooLate(queue, owner))
  else if (outcome === 'time-out') owner.deadline.end('deadline')
}

/** Returns the owner as it was. */
function endRequest(queue: LocalQueue, request: StoreRequest): QueueEntry | undefined {
  const owner = rules.arrived(queue.state, request)
  request.done()
  if (queue.state.asking.size === 0) queue.lastReport = undefined
  return owner
}

/**
 * The store grants nothing beside a hold that excludes it. So an older hold of this process, also one that is being
 * passed on, is over in the store: an operator or the end of its session removed it, and the notice has not arrived
 * yet.
 * @returns false: the grant itself is the older one
 */
function supersede({ state }: LocalQueue, { mode }: Claim, grant: Grant): boolean {
  const others = rules.excludedBy(state, mode)
  for (const { token, watchdog } of others) {
    if (token < grant.token && watchdog.checkNow() !== 'lost') watchdog.lose('revoked')
  }
  return others.every(({ token }) => token < grant.token)
}

/** A cache in another process must not refuse a single attempt, which therefore asks once more, as a waiter. */
function mayBeRefusedByCache(
  { once, cached, isPatient }: StoreRequest,
  owner: QueueEntry | undefined,
): boolean {
  return once && cached && !isPatient && owner !== undefined && owner.batch === undefined
}

/** The lock is not free for a single attempt. */
export function refuse(entry: QueueEntry): void {
  entry.deadline.done()
  entry.granted(undefined)
}

function fail(entry: QueueEntry, error: unknown): void {
  entry.deadline.done()
  entry.failed(error)
}

function replyTooLate({ engine, name }: LocalQueue, { terms }: QueueEntry): BackendError {
  const message = `the reply about ${quote(name)} came when the grant had nearly expired (ttl: ${terms.ttl} ms); try again, or use a longer ttl`
  return new BackendError(engine.driver.name, message)
}
