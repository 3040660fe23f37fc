/**
 * Whether a lease holds at a given moment, what to do about it, and when to check again: pure functions over plain data.
 * `lease-record.ts` keeps the data, and `watchdog.ts` does what `plan` says.
 *
 * ```
 *            renewal overdue              `until` passed (from the clock, not from a timer)
 *   held ───────────────────► doubtful ─────────────────────────────────────────────► lost: expired
 *    ▲                           │        the store reports the loss: `until` is -Infinity
 *    └───────── renewed ─────────┘       ────────────────────────────────────────────► lost: revoked
 * ```
 * All times are clock readings in milliseconds. `Infinity` means never.
 */
import { maxClockDrift, safetyMargin, ttlWithDelay } from './clock.js'
import type { LossCause } from './errors.js'

export type LeaseHealth = 'held' | 'doubtful' | 'lost'

/** The functions here change only when the next renewal is due and what is to be reported. */
export interface LeaseFacts {
  /** The requested ttl, in ms. */
  readonly ttl: number
  /** How much longer than the lease the store keeps the grant, in ms. */
  readonly lockDelay: number
  /** The holder may rely on the lease until then; -Infinity once the store has dropped the grant. */
  readonly until: number
  /** The newest `until` before the store dropped it: a grant that had run out by then has expired and was not revoked. */
  readonly knownUntil: number
  /** The lease is lost then, however healthy. */
  readonly maxHoldAt: number
  /** How long one renewal is valid, in ms. */
  readonly maxLeaseTtl: number
  readonly autoRenew: boolean
  /** The next automatic renewal. */
  renewAt: number
  /** A renewal without a reply by then makes the lease doubtful. */
  overdueAt: number
  /** This doubt has been reported. */
  doubtReported: boolean
  /** A renewal, automatic or not, has not ended yet: no other is sent beside it. */
  readonly renewing: boolean
  /** Explicit renewals that are under way or wait for another to end. */
  readonly extending: number
  /** A check has found the loss: it is final, whatever `until` becomes. */
  readonly loss: LossCause | undefined
  /** Lost and reported, or released. */
  readonly ended: boolean
}

export type LeaseAction = 'lose' | 'report-doubt' | 'renew'

export interface LeasePlan {
  readonly health: LeaseHealth
  /** Do this, then plan again. Undefined: nothing to do before `nextAt`. */
  readonly action: LeaseAction | undefined
  readonly nextAt: number
}

export function plan(lease: LeaseFacts, now: number): LeasePlan {
  if (lease.ended) return { health: 'lost', action: undefined, nextAt: Number.POSITIVE_INFINITY }
  const health = healthAt(lease, now)
  return { health, action: actionAt(lease, health, now), nextAt: nextAt(lease) }
}

export function healthAt(lease: LeaseFacts, now: number): LeaseHealth {
  if (lease.ended || lossAt(lease, now) !== undefined) return 'lost'
  return now >= lease.overdueAt ? 'doubtful' : 'held'
}

/** Undefined: the lease is not lost. */
export function lossAt(
  { loss, until, knownUntil, maxHoldAt }: LeaseFacts,
  now: number,
): LossCause | undefined {
  if (loss !== undefined) return loss
  if (now < until) return now >= maxHoldAt ? 'max-hold' : undefined
  return until === Number.NEGATIVE_INFINITY && now < knownUntil ? 'revoked' : 'expired'
}

/**
 * When to release the grant of a lease that was just lost. `now`: the store has dropped it already. Otherwise the clock
 * reading at which the store lets it expire, clocks that drift apart included: earlier, another could get the lock
 * while the holder, which has only just been notified, still uses its last milliseconds.
 */
export function releaseAt({ until, ttl, lockDelay }: LeaseFacts, why: LossCause): number | 'now' {
  if (why === 'taken' || why === 'revoked') return 'now'
  return until + lockDelay + ttlWithDelay(ttl, lockDelay) * maxClockDrift + safetyMargin
}

function actionAt(lease: LeaseFacts, health: LeaseHealth, now: number): LeaseAction | undefined {
  if (health === 'lost') return 'lose'
  if (health === 'doubtful' && !lease.doubtReported) return 'report-doubt'
  return lease.autoRenew && !lease.renewing && now >= lease.renewAt ? 'renew' : undefined
}

function nextAt({ until, maxHoldAt, autoRenew, renewing, extending, renewAt }: LeaseFacts): number {
  const end = Math.min(until, maxHoldAt)
  // No automatic renewal runs beside another renewal; once that one ends, it is planned again.
  return !autoRenew || renewing || extending > 0 ? end : Math.min(end, renewAt)
}

/**
 * Of the ttl. A third of the time left is less than a third of the ttl, because a deadline allows for clocks that drift apart. Four beats
 * fit into it, so a lease renewed on a beat is renewed on every fourth beat from then on. Of beats of a twelfth only three fitted, and
 * every lease was renewed four times per ttl.
 */
const beatShare = 0.08

/** After a proof: renew at a third of the time left, on a common beat so that many leases renew in one round trip. */
export function planRenewal(lease: LeaseFacts, now: number): void {
  const { until, maxLeaseTtl } = lease
  const left = until - now
  const beat = maxLeaseTtl * beatShare
  const at = now + left / 3
  lease.doubtReported = false
  lease.renewAt = left > maxLeaseTtl / 2 ? Math.max(now, Math.floor(at / beat) * beat) : at
  lease.overdueAt = lease.renewAt + tryTime(maxLeaseTtl)
}

/**
 * After a renewal that failed or got no reply. A refused connection fails at once: a pause of a twentieth of the ttl,
 * with jitter, avoids hammering a dead store.
 * @param random from 0 to 1
 */
export function planRetry(lease: LeaseFacts, now: number, random: number): void {
  lease.renewAt = now + Math.max(10, lease.maxLeaseTtl / 20) * (0.5 + random)
  lease.overdueAt = Math.min(lease.overdueAt, now)
}

/** After an explicit renewal: the deadline may have moved closer, and automatic renewals have waited. */
export function planAfterExtend(lease: LeaseFacts, now: number): void {
  lease.renewAt = Math.min(lease.renewAt, now + (lease.until - now) / 3)
}

/** How long one renewal may take, in ms. */
export function tryTime(ttl: number): number {
  return Math.max(50, ttl / 6)
}
