/**
 * The only place that reads time or sets a timer.
 *
 * `now()` is monotonic milliseconds. On Linux the monotonic clock stands still while the machine sleeps, but leases
 * in a store do not; so `noticeSleep()` compares it with the boot clock, which goes on, and moves `now()` forward
 * by what was slept. Every deadline then passes by itself. The wall clock is never used.
 */
import { uptime } from 'node:os'
// Not the global of that name: reading that one is a getter call on top.
import { performance } from 'node:perf_hooks'

export interface Clock {
  /** Monotonic milliseconds since some fixed moment, time asleep included once noticed. */
  now(): number
  /**
   * Compares with the boot clock, which costs about 5 µs, at most once a millisecond. Returns the milliseconds of sleep it
   * has just noticed, else 0.
   */
  noticeSleep(): number
  /** Calls `fn` once, not before `at`. `ref: false` lets the process end meanwhile. Returns a function that cancels. */
  at(at: number, fn: () => void, options?: { readonly ref?: boolean }): () => void
  /** Calls `fn` once the microtasks at hand are done: for work that is mostly unneeded by then. */
  soon(fn: () => void): void
}

/** Less than this between the two clocks is their difference in resolution (10 ms) and in reading time, not sleep. */
const asleepAfter = 200
/** Two readings that were to be at one moment, further apart than this, say nothing. */
const tooFarApart = 20
/** Node fires a longer timer at once. */
const longestTimer = 2 ** 31 - 1

export function systemClock(boot: () => number = () => uptime() * 1000): Clock {
  let offset = 0
  let gap: number | undefined
  let lookedAt = Number.NEGATIVE_INFINITY
  const now = () => performance.now() + offset

  const noticeSleep = () => {
    const time = now()
    if (time - lookedAt < 1) return 0
    const present = boot() - time
    // Set aside between the two readings, this thread would take that for sleep: looked at again next time.
    if (now() - time > tooFarApart) return 0
    lookedAt = time
    if (gap === undefined || present < gap) gap = present
    const slept = present - gap
    if (slept < asleepAfter) return 0
    offset += slept
    return slept
  }

  const at: Clock['at'] = (time, fn, options) => {
    let handle: NodeJS.Timeout | undefined
    const arm = () => {
      // Timers may fire up to 1 ms early; arming again until the time has come keeps "not before" true.
      const left = time - now()
      if (left <= 0 && handle !== undefined) return fn()
      handle = setTimeout(arm, Math.min(Math.max(Math.ceil(left), 1), longestTimer))
      if (options?.ref === false) handle.unref()
    }
    arm()
    return () => clearTimeout(handle)
  }

  noticeSleep()
  return { now, noticeSleep, at, soon: (fn) => void setImmediate(fn) }
}

/** Share of a ttl that clocks may drift apart: 1 %, twenty times what ntpd slews; chrony's default bound is higher (docs/guarantees.md). */
export const driftShare = 0.01
/** The ttl of which `deadline` leaves `lockDelay` ms more than of `ttl` alone. */
export function ttlWithDelay(ttl: number, lockDelay: number): number {
  return ttl + Math.ceil(lockDelay / (1 - driftShare))
}

/** Milliseconds taken off every deadline: a store's clock tick plus a timer's. */
export const margin = 2

/**
 * The last moment at which a lease is good: counted from `sent`, the clock reading before the request that proved
 * it left, so that neither the way there nor the way back can make it too late.
 */
export function deadline(sent: number, ttl: number): number {
  return sent + ttl * (1 - driftShare) - margin
}
