/**
 * The options of an acquisition, their defaults, and the one place that checks them, before any I/O.
 *
 * Long because every option stands beside its check.
 */
import type { Traits } from './driver.js'
import { type Duration, duration } from './duration.js'
import { UnsupportedError } from './errors.js'
import { checkKnown } from './known-options.js'
import type { Lease } from './lease.js'
import { checkName, describe } from './name.js'
import { checkMaxPending } from './pending.js'

export interface AcquireOptions {
  /**
   * Longest time to wait, in ms or as text such as `'30s'`, like every duration here. `0` makes one attempt,
   * `Infinity` waits for ever. It covers everything, a slow store included: a grant that arrives later is released. A
   * time in which the event loop is blocked does not end it: what arrived meanwhile counts.
   * The error may come up to 200 ms later when it first queries who holds the lock.
   * @default 30_000
   */
  readonly wait?: Duration
  /** Cancels the wait, and only the wait: `acquire` then rejects with `signal.reason`. A lease is not affected. */
  readonly signal?: AbortSignal
  /**
   * How long the lease outlives its last proof, in ms: after this time a crashed holder no longer blocks others, and
   * a partitioned one knows that it has lost. Not the longest time to hold: that is `maxHold`.
   * @default 30_000
   */
  readonly ttl?: Duration
  /**
   * How many ms longer the lock stays unavailable after a lease ended without a release (its process crashed, was
   * partitioned, or held too long): time for requests that it may still have on their way to a resource that cannot
   * check tokens. A release frees the lock at once.
   * @default 0
   */
  readonly lockDelay?: Duration
  /**
   * The watchdog: renews every third of `ttl` until the release. With `false` the lease ends after one `ttl` unless
   * `extend()` is called.
   * @default true
   */
  readonly autoRenew?: boolean
  /** Longest time to hold in ms, however healthy: then the lease is lost with `why: 'max-hold'`. @default Infinity */
  readonly maxHold?: Duration
  /**
   * Strict first come, first served across processes. Without it a process may hand the lock over inside itself, at
   * most 16 times or for 50 ms while another process waits.
   * @default false
   */
  readonly fair?: boolean
  /**
   * Lock caching: the lock stays with this process for this many ms after its release, and the next acquire here sends
   * nothing. A waiter in another process ends that at once; a crash of this process meanwhile costs the others up to
   * one `ttl`. Choose it much shorter than `ttl`. Exclusive locks only; `fair` requests are never cached. Refused by
   * drivers without `traits.caching`. @default 0
   */
  readonly linger?: Duration
  /**
   * Enter again what this async context already holds (`true`, inside `run`), or what the given lease holds.
   * Without it such an acquire throws `DeadlockError`.
   * @default false
   */
  readonly reentrant?: boolean | Lease
  /**
   * Leases from `acquire` that the caller keeps during this wait. They count as if it waited inside their `run`: for
   * the lock order, for rings of waiters, and for waiting on itself.
   */
  readonly holding?: Lease | readonly Lease[]
  /** What the lock is held for, shown to waiters and operators. At most 256 bytes. */
  readonly note?: string
  /** Semaphores only: how many permits to take. @default 1 */
  readonly permits?: number
  /**
   * Refuses this acquisition with `TooManyWaitersError`, before anything is sent, when this many or more are pending
   * for the name in this process: requested through the same `createLocks`, and neither granted nor ended. Holders
   * and single attempts (`tryAcquire`, `wait: 0`) do not count and are never refused. A whole number from 1, or
   * Infinity. @default Infinity
   */
  readonly maxPending?: number
  /**
   * `false`: the `leakWarning` of `createLocks` leaves this lease out. For one that is meant to be held far longer than
   * others of its name, such as that of a migration. @default true
   */
  readonly leakWarning?: boolean
}

/** Options of a single attempt: no `wait`, and no bound on waiters. */
export type TryOptions = Omit<AcquireOptions, 'wait' | 'maxPending'>

/** Options that can be set once, for all locks of one `createLocks` or for one lock. */
export type Defaults = Pick<
  AcquireOptions,
  'wait' | 'ttl' | 'lockDelay' | 'autoRenew' | 'maxHold' | 'fair' | 'linger' | 'maxPending'
>

/** Defaults of latches and barriers: every waiter there is a participant, and their number has no bound. */
export type ParticipantDefaults = Omit<Defaults, 'maxPending' | 'linger'>

/** Options with every default filled in and every value checked. */
export interface Terms {
  readonly wait: number
  readonly signal: AbortSignal | undefined
  readonly ttl: number
  readonly lockDelay: number
  readonly autoRenew: boolean
  readonly maxHold: number
  readonly fair: boolean
  readonly linger: number
  readonly reentrant: boolean | Lease
  readonly holding: Lease | readonly Lease[] | undefined
  readonly note: string | undefined
  readonly permits: number | undefined
  readonly maxPending: number
  readonly leakWarning: boolean
}

const defaults: Terms = {
  wait: 30_000,
  signal: undefined,
  ttl: 30_000,
  lockDelay: 0,
  autoRenew: true,
  maxHold: Number.POSITIVE_INFINITY,
  fair: false,
  linger: 0,
  reentrant: false,
  holding: undefined,
  note: undefined,
  permits: undefined,
  maxPending: Number.POSITIVE_INFINITY,
  leakWarning: true,
}

const maxNoteBytes = 256
const known = Object.keys(defaults)
export const participantDefaults: readonly string[] = [
  'wait',
  'ttl',
  'lockDelay',
  'autoRenew',
  'maxHold',
  'fair',
]
const knownDefaults = [...participantDefaults, 'linger', 'maxPending']

/** Of locks with permits, whose number is part of the name. @throws TypeError for anything but options with known names */
export function checkPermitsOptions(whose: string, given: unknown): void {
  if (typeof given !== 'object' || given === null)
    throw new TypeError(`${whose} takes options such as { permits: 3 }, got ${describe(given)}`)
  checkKnown(whose, given, ['permits', ...knownDefaults])
}

/** Applies the defaults of one `createLocks` to the built-in ones. @throws TypeError, RangeError, UnsupportedError */
export function resolveDefaults(driver: string, traits: Traits, given: Defaults | undefined): Terms {
  // A store that cannot keep so short a lease would refuse its own default; its default is then its minimum.
  const base = { ...defaults, ttl: Math.max(defaults.ttl, traits.minTtl) }
  return defaultsOver('createLocks()', driver, traits, base, given)
}

/** Applies defaults to others. @param whose as in a message: `mutex()` @throws TypeError, RangeError, UnsupportedError */
export function defaultsOver(
  whose: string,
  driver: string,
  traits: Traits,
  base: Terms,
  given: Defaults | undefined,
  known: readonly string[] = knownDefaults,
): Terms {
  if (given === undefined) return base
  checkOptions(given)
  checkKnown(whose, given, known)
  return resolveTerms(driver, traits, base, given)
}

/** @throws TypeError, RangeError naming the option, the value got and the remedy; UnsupportedError for `fair`. */
export function resolveTerms(driver: string, traits: Traits, base: Terms, given: AcquireOptions): Terms {
  checkOptions(given)
  checkKnown('a lock', given, known)
  const terms: Terms = {
    wait: duration('wait', given.wait ?? base.wait, 0, true),
    signal: checkSignal(given.signal),
    ttl: duration('ttl', given.ttl ?? base.ttl, traits.minTtl, false),
    lockDelay: parseLockDelay(driver, traits, given.lockDelay ?? base.lockDelay),
    autoRenew: flag('autoRenew', given.autoRenew ?? base.autoRenew),
    maxHold: duration('maxHold', given.maxHold ?? base.maxHold, 1, true),
    fair: flag('fair', given.fair ?? base.fair),
    linger: parseLinger(driver, traits, given.linger ?? base.linger),
    reentrant: given.reentrant ?? base.reentrant,
    holding: given.holding,
    note: given.note === undefined ? undefined : checkNote(given.note),
    permits: given.permits,
    maxPending: checkMaxPending(given.maxPending ?? base.maxPending),
    leakWarning: flag('leakWarning', given.leakWarning ?? base.leakWarning),
  }
  if (terms.fair && !traits.fair) {
    throw new UnsupportedError(
      driver,
      'first come, first served order across processes (fair: true)',
      'leave out fair',
    )
  }
  return terms
}

/**
 * Without this check a bare number would be ignored in silence. @param times options it may have been meant for
 * @throws TypeError when it is no object with options
 */
export function checkOptions(given: unknown, times: readonly string[] = ['wait', 'ttl']): void {
  if (given === undefined || (typeof given === 'object' && given !== null && !Array.isArray(given))) return
  const time = typeof given === 'number' ? given : 5_000
  const instead = times.map((name) => `{ ${name}: ${time} }`).join(' or ')
  throw new TypeError(`options must be an object such as ${instead}, got ${describe(given)}`)
}

/** Checks the options of `tryAcquire`. @throws TypeError for options that make no sense with a single attempt */
export function checkSingle(given: unknown): void {
  checkOptions(given, ['ttl'])
  for (const option of ['wait', 'maxPending']) {
    if (given === undefined || !(option in (given as object))) continue
    throw new TypeError(`tryAcquire makes one attempt and takes no ${option}; use acquire({ ${option} })`)
  }
}

function parseLockDelay(driver: string, { maxLockDelay = 0 }: Traits, value: unknown): number {
  const delay = duration('lockDelay', value, 0, false)
  if (delay > 0 && maxLockDelay === 0)
    throw new UnsupportedError(
      driver,
      'a lock-delay (lockDelay)',
      'a hold there ends at once with its process or connection; let the resource check the token',
    )
  if (delay > maxLockDelay)
    throw new RangeError(`lockDelay must be from 0 to ${maxLockDelay} ms with ${driver}, got ${delay}`)
  return delay
}

function parseLinger(driver: string, { caching = false }: Traits, value: unknown): number {
  const linger = duration('linger', value, 0, false)
  if (linger > 0 && !caching)
    throw new UnsupportedError(
      driver,
      'lock caching (linger)',
      'it needs reserved tokens and a push to the holder; leave out linger',
    )
  return linger
}

function flag(option: string, value: unknown): boolean {
  if (typeof value !== 'boolean')
    throw new TypeError(`${option} must be true or false, got ${describe(value)}`)
  return value
}

function checkSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw new TypeError(`signal must be an AbortSignal, got ${describe(signal)}`)
}

function checkNote(note: unknown): string {
  checkName(note, 'note')
  const text = note as string
  if (Buffer.byteLength(text) > maxNoteBytes) {
    throw new RangeError(`note is ${Buffer.byteLength(text)} bytes long; the limit is ${maxNoteBytes}`)
  }
  return text
}
