/** What a caller may ask for, its defaults, and the one place where it is checked, before any I/O. */
import type { Traits } from './driver.js'
import { UnsupportedError } from './errors.js'
import type { Lease } from './lease.js'
import { checkName, describe } from './name.js'

export interface AcquireOptions {
  /**
   * Longest time to wait in ms. `0` makes one attempt, `Infinity` waits for ever. It covers everything, also a slow
   * store: a grant that comes later is given back.
   * @default 30_000
   */
  readonly wait?: number
  /** Cancels the wait, and only the wait: `acquire` then rejects with `signal.reason`. A lease is not affected. */
  readonly signal?: AbortSignal
  /**
   * How long the lease outlives its last proof, in ms: the time after which a crashed holder no longer blocks others
   * and a cut-off one knows it has lost. Not the longest time to hold: that is `maxHold`.
   * @default 30_000
   */
  readonly ttl?: number
  /**
   * After a lease that ended without a release (its process died, was cut off, or held too long) others are kept out for so many ms more:
   * time for what it may still have on its way to a resource that cannot check tokens. A release frees the lock at once.
   * @default 0
   */
  readonly lockDelay?: number
  /**
   * The watchdog: renew every third of `ttl` until released. `false` ends the lease after one `ttl` unless `extend()` is called.
   * @default true
   */
  readonly autoRenew?: boolean
  /** Longest time to hold in ms, however healthy: then the lease is lost with `why: 'max-hold'`. @default Infinity */
  readonly maxHold?: number
  /**
   * Strict first come, first served across processes. Without it a process may pass the lock on inside itself, at most
   * 16 times or for 50 ms while another process waits.
   * @default false
   */
  readonly fair?: boolean
  /**
   * Enter again what this async context already holds (`true`, inside `run`), or what the given lease holds.
   * Without it such an acquire throws `DeadlockError`.
   * @default false
   */
  readonly reentrant?: boolean | Lease
  /**
   * Leases that came of `acquire` and are kept while this waits. They count as if it waited inside their `run`: for the order of locks, for rings
   * of waiters, and for waiting for oneself.
   */
  readonly holding?: Lease | readonly Lease[]
  /** Shown to those who wait and to operators: what the lock is held for. At most 256 bytes. */
  readonly note?: string
  /** Semaphores only: how many permits to take. @default 1 */
  readonly permits?: number
}

/** One attempt, so no `wait`. */
export type TryOptions = Omit<AcquireOptions, 'wait'>

/** What may be set once for all locks of one `createLocks`. */
export type Defaults = Pick<AcquireOptions, 'wait' | 'ttl' | 'lockDelay' | 'autoRenew' | 'maxHold' | 'fair'>

/** Options with every default filled in and every value checked. */
export interface Terms {
  readonly wait: number
  readonly signal: AbortSignal | undefined
  readonly ttl: number
  readonly lockDelay: number
  readonly autoRenew: boolean
  readonly maxHold: number
  readonly fair: boolean
  readonly reentrant: boolean | Lease
  readonly holding: Lease | readonly Lease[] | undefined
  readonly note: string | undefined
  readonly permits: number | undefined
}

const defaults: Terms = {
  wait: 30_000,
  signal: undefined,
  ttl: 30_000,
  lockDelay: 0,
  autoRenew: true,
  maxHold: Number.POSITIVE_INFINITY,
  fair: false,
  reentrant: false,
  holding: undefined,
  note: undefined,
  permits: undefined,
}

/** A longer one is almost surely a slip of unit (seconds given as microseconds, a date given as a duration). */
const longest = 366 * 86_400_000
const maxNoteBytes = 256
const known = new Set(Object.keys(defaults))

/** Defaults of one `createLocks` over the built-in ones. @throws TypeError, RangeError, UnsupportedError */
export function resolveDefaults(driver: string, traits: Traits, given: Defaults | undefined): Terms {
  // A store that cannot keep so short a lease would refuse its own default; it then starts from what it can.
  const base = { ...defaults, ttl: Math.max(defaults.ttl, traits.minTtl) }
  return given === undefined ? base : resolveTerms(driver, traits, base, given)
}

/** @throws TypeError, RangeError naming the option, the value got and the remedy; UnsupportedError for `fair`. */
export function resolveTerms(driver: string, traits: Traits, base: Terms, given: AcquireOptions): Terms {
  checkOptions(given)
  for (const key of Object.keys(given)) {
    if (!known.has(key))
      throw new TypeError(`unknown option ${describe(key)}; known are ${[...known].join(', ')}`)
  }
  const terms: Terms = {
    wait: duration('wait', given.wait ?? base.wait, 0, true),
    signal: checkSignal(given.signal),
    ttl: duration('ttl', given.ttl ?? base.ttl, traits.minTtl, false),
    lockDelay: lockDelayOf(driver, traits, given.lockDelay ?? base.lockDelay),
    autoRenew: flag('autoRenew', given.autoRenew ?? base.autoRenew),
    maxHold: duration('maxHold', given.maxHold ?? base.maxHold, 1, true),
    fair: flag('fair', given.fair ?? base.fair),
    reentrant: given.reentrant ?? base.reentrant,
    holding: given.holding,
    note: given.note === undefined ? undefined : checkNote(given.note),
    permits: given.permits,
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

/** A number alone would be passed over in silence. @param times options it may have been meant for @throws TypeError when it is no object with options */
export function checkOptions(given: unknown, times: readonly string[] = ['wait', 'ttl']): void {
  if (given === undefined || (typeof given === 'object' && given !== null && !Array.isArray(given))) return
  const time = typeof given === 'number' ? given : 5_000
  const instead = times.map((name) => `{ ${name}: ${time} }`).join(' or ')
  throw new TypeError(`options must be an object such as ${instead}, got ${describe(given)}`)
}

function lockDelayOf(driver: string, { maxLockDelay = 0 }: Traits, value: unknown): number {
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

/** @throws TypeError when it is not a number, RangeError when it is negative, NaN, too short or absurd. */
export function duration(option: string, value: unknown, least: number, infinite: boolean): number {
  if (typeof value !== 'number')
    throw new TypeError(`${option} must be a number of milliseconds, got ${describe(value)}`)
  if (value === Number.POSITIVE_INFINITY && infinite) return value
  if (!(value >= least && value <= longest)) {
    const range = `from ${least} to ${longest} ms${infinite ? ', or Infinity' : ''}`
    throw new RangeError(`${option} must be ${range}, got ${value}`)
  }
  return value
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
