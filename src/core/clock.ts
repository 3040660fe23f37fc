/**
 * The only place that reads time or sets a timer.
 *
 * `now()` is monotonic milliseconds. On Linux the monotonic clock stops while the machine sleeps, but leases in a
 * store do not; so `noticeSleep()` compares it with the boot clock, which keeps running, and moves `now()` forward by
 * the time slept. Every deadline then passes by itself. No deadline uses the wall clock: see `wallTime`.
 */
import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'
// Not the global of that name, which costs an additional getter call.
import { performance } from 'node:perf_hooks'

export interface Clock {
  /** Monotonic milliseconds since some fixed moment, including sleep once noticed. */
  now(): number
  /**
   * Compares with the boot clock, at most once a millisecond. Returns the milliseconds of sleep that it has just
   * noticed, else 0.
   */
  noticeSleep(): number
  /** Calls `fn` once, not before `at`. `ref: false` lets the process end meanwhile. Returns a function that cancels. */
  at(at: number, fn: () => void, options?: { readonly ref?: boolean }): () => void
  /** Calls `fn` after the current microtasks: for work that is mostly unneeded by then. */
  soon(fn: () => void): void
  /** Calls `fn` within a few hundredths of a second: for work that is mostly unneeded by then. Returns a function that cancels. */
  shortly(fn: () => void): () => void
}

interface BootClock {
  /** Milliseconds since the machine started, sleep included. */
  readonly read: () => number
  /** A smaller difference between the two clocks comes from their resolution and from reading time, not from sleep. */
  readonly asleepAfter: number
}

/** `os.uptime()` has hundredths of a second on Node, whole seconds on Bun and Deno, where /proc/uptime is read instead. */
function findBootClock(): BootClock {
  const { bun, deno } = process.versions as { readonly bun?: string; readonly deno?: string }
  const node = () => uptime() * 1000
  if (bun === undefined && deno === undefined) return { read: node, asleepAfter: 200 }
  try {
    const linux = () => Number.parseFloat(readFileSync('/proc/uptime', 'latin1')) * 1000
    if (Number.isFinite(linux())) return { read: linux, asleepAfter: 200 }
  } catch {
    // Not Linux.
  }
  return { read: node, asleepAfter: 1_300 }
}

const bootClock = findBootClock()
/** Milliseconds since the machine started, sleep included: the same for all processes of the machine, and never set. */
export const sinceBoot: () => number = bootClock.read
/** Two readings of one moment that differ by more than this prove nothing. */
const maxReadGap = 20
/**
 * Reading the boot clock opens a file on Linux, which costs 5 µs: too much for every acquire. A machine that wakes up
 * moves its wall clock forward by the time slept, too. So the boot clock is read when the wall clock has jumped, and
 * at this interval in any case, in ms: somebody may have set the wall clock back by exactly the time slept.
 */
const bootClockAtLeastEvery = 20
/** How far the wall clock must have moved against the monotonic clock, in ms. Less than the shortest sleep that counts. */
const wallClockJump = 50
/**
 * What `shortly` means, in ms. While a timer is due within a few ms, each wait of the event loop sets the timer of the
 * processor, which costs more than what is saved.
 */
const shortlyIs = 20
/** Node fires a longer timer at once. */
const maxTimer = 2 ** 31 - 1

export function systemClock(boot: () => number = sinceBoot, wall: () => number = wallTime): Clock {
  let offset = 0
  let gap: number | undefined
  let lookedAt = Number.NEGATIVE_INFINITY
  /** How far the wall clock was ahead when the boot clock was last read, and when that was. */
  let wallAhead = 0
  let readAt = Number.NEGATIVE_INFINITY
  const asleepAfter = boot === sinceBoot ? bootClock.asleepAfter : 200
  const now = () => performance.now() + offset

  const noticeSleep = () => {
    const time = now()
    if (time - lookedAt < 1) return 0
    const ahead = wall() - time
    if (time - readAt < bootClockAtLeastEvery && Math.abs(ahead - wallAhead) < wallClockJump) {
      lookedAt = time
      return 0
    }
    const present = boot() - time
    // If this thread was preempted between the two readings, that time would look like sleep: check again next time.
    if (now() - time > maxReadGap) return 0
    lookedAt = time
    readAt = time
    wallAhead = ahead
    if (gap === undefined || present < gap) gap = present
    const slept = present - gap
    if (slept < asleepAfter) return 0
    offset += slept
    return slept
  }

  const at: Clock['at'] = (time, fn, options) => {
    let handle: NodeJS.Timeout | undefined
    const arm = () => {
      // Timers may fire up to 1 ms early; rearming until the time has come keeps "not before" true.
      const left = time - now()
      if (left <= 0 && handle !== undefined) return fn()
      handle = setTimeout(arm, Math.min(Math.max(Math.ceil(left), 1), maxTimer))
      if (options?.ref === false) handle.unref()
    }
    arm()
    return () => clearTimeout(handle)
  }

  const shortly: Clock['shortly'] = (fn) => {
    const handle = setTimeout(fn, shortlyIs)
    return () => clearTimeout(handle)
  }

  noticeSleep()
  return { now, noticeSleep, at, soon: (fn) => void setImmediate(fn), shortly }
}

/**
 * Share of a ttl by which clocks may drift apart: 1 %, twenty times what ntpd slews; chrony's default bound is higher
 * (docs/guarantees.md).
 */
export const maxClockDrift = 0.01
/** The ttl whose `deadline` is `lockDelay` ms later than that of `ttl` alone. */
export function ttlWithDelay(ttl: number, lockDelay: number): number {
  return ttl + Math.ceil(lockDelay / (1 - maxClockDrift))
}

/** Milliseconds subtracted from every deadline: one tick of a store's clock plus one of a timer. */
export const safetyMargin = 2

/**
 * The last moment at which a lease is valid. It counts from `sent`, the clock reading before the request that proved
 * the lease left, so neither the request's nor the reply's travel time can make it too late.
 */
export function deadline(sent: number, ttl: number): number {
  return sent + ttl * (1 - maxClockDrift) - safetyMargin
}

/**
 * Milliseconds since 1970 by this machine's clock, which may be wrong and may jump. Only for judging whether a
 * stranger's claim can be true, and for when to read the boot clock.
 */
export function wallTime(): number {
  return Date.now()
}
