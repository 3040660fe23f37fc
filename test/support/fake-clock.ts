/** Virtual time for core tests: nothing happens until `advance`. */
import type { Clock } from '../../src/core/clock.js'

interface Timer {
  readonly at: number
  readonly order: number
  readonly fn: () => void
}

export interface FakeClock extends Clock {
  /** Moves time on by `ms`, running what falls due in order, and the promises that hang on it. */
  advance(ms: number): Promise<void>
  /** The event loop is paused for `ms`: time passes, no timer runs until the next `advance`. */
  stall(ms: number): void
  /** The machine sleeps for `ms`: only the boot clock continues. */
  sleep(ms: number): void
  /** Timers that are set. */
  readonly pending: number
}

/** Lets every promise that can settle without time passing settle. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}

export function fakeClock(start = 1_000_000): FakeClock {
  let now = start
  let slept = 0
  let order = 0
  const timers = new Set<Timer>()

  const next = (until: number): Timer | undefined => {
    let first: Timer | undefined
    for (const timer of timers) {
      if (timer.at > until) continue
      if (first === undefined || timer.at < first.at || (timer.at === first.at && timer.order < first.order))
        first = timer
    }
    return first
  }

  return {
    now: () => now,
    noticeSleep: () => {
      const noticed = slept
      now += slept
      slept = 0
      return noticed
    },
    at: (at, fn) => {
      const timer = { at, order: order++, fn }
      timers.add(timer)
      return () => void timers.delete(timer)
    },
    soon: (fn) => void setImmediate(fn),
    shortly: (fn) => {
      const handle = setImmediate(fn)
      return () => clearImmediate(handle)
    },
    advance: async (ms) => {
      const until = now + ms
      await settle()
      for (let timer = next(until); timer !== undefined; timer = next(until)) {
        timers.delete(timer)
        now = Math.max(now, timer.at)
        timer.fn()
        await settle()
      }
      now = Math.max(now, until)
      await settle()
    },
    stall: (ms) => {
      now += ms
    },
    sleep: (ms) => {
      slept += ms
    },
    get pending() {
      return timers.size
    },
  }
}
